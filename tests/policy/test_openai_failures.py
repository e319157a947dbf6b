"""Endpoints that fail, refuse or ask to wait: what is tried again, and what is said."""

import gzip
import time
from collections.abc import Mapping
from threading import Barrier, Event
from typing import Any

import pytest
from asked_endpoints import GREEDY, SLOW, asked, content, failure, model_at
from support.misbehaving_endpoint import (
    Handler,
    Server,
    answers,
    closed_port,
    completion,
    drips_body,
    drips_headers,
    endless_body,
    hangs,
    hangs_up,
    no_http,
    sends,
    serving,
)

from envgen.errors import ModelError
from policy.chat.contract import Completion, ask
from policy.chat.openai_model import MAX_BODY, _retry_after

NO_COMPLETION = "the body is no chat completion: "
TOO_LONG = f"the body is longer than {MAX_BODY:,} bytes"
BUSY = {"error": {"message": "slow down"}}
HALF = sends(b'{"choices": [{"message": {"content": "\\ud800"}}]}')
ZIPPED = sends(gzip.compress(b" " * 50_000_000), Content_Encoding="gzip")
FLEETING = {
    "breaks the connection": (hangs_up, "no answer: "),
    "hangs": (hangs, "no complete answer within 0.5 s"),
    "drips its body for ever": (drips_body, "no complete answer within 0.5 s"),
    "drips its headers for ever": (drips_headers, "no complete answer within 0.5 s"),
    "speaks no HTTP": (no_http, "no answer: RemoteProtocolError"),
    "is too busy": (sends(BUSY, 429), 'status 429, \'{"error": {"message": "slow down"}}\''),
    "fails": (sends("oops", 500), "status 500, 'oops'"),
    "is not reached by its gateway": (sends("<html>bad gateway</html>", 502), "status 502"),
    "gives up itself": (sends("", 408), "status 408, ''"),
    "sends garbage": (sends("<html>welcome</html>"), "the body is no JSON: '<html>welcome</html>'"),
    "sends bytes that are no text": (sends(b"\xff\xfe\x00"), "the body is no JSON"),
    "sends nothing": (sends(b""), "the body is no JSON: ''"),
    "sends endless nesting": (sends("[" * 100_000), "the body is no JSON"),
    "sends half a character": (HALF, "the body is no JSON"),
    "sends a list": (sends([1, 2]), f"{NO_COMPLETION}the body: "),
    "sends JSON of another shape": (sends({"answer": 42}), f"{NO_COMPLETION}choices: Field required"),
    "sends no choice": (sends({"choices": []}), f"{NO_COMPLETION}choices: List should have at least 1 item"),
    "sends no message": (sends({"choices": [{"text": "old"}]}), "choices.0.message: Field required"),
    "sends a number": (sends(completion(3)), "choices.0.message.content: Input should be a valid string"),
    "sends an empty answer": (answers(""), "the answer is empty"),
    "calls a tool instead": (answers(None, finish="tool_calls"), "the answer is empty"),
    "sends a huge body": (sends(completion("x" * 12_000_000)), TOO_LONG),
    "fails with a huge body": (sends(b"x" * 12_000_000, 500), TOO_LONG),
    "sends a body without end": (endless_body, TOO_LONG),
    "sends a small body that unpacks to a huge one": (ZIPPED, "the body is compressed"),
}


@pytest.mark.parametrize(("behaviour", "reason"), FLEETING.values(), ids=list(FLEETING))
def test_a_server_that_fails_is_asked_again_and_then_named_with_the_reason(behaviour, reason: str):
    start = time.monotonic()
    with serving(behaviour) as server:
        model = model_at(server.url, timeout=0.5 if behaviour in SLOW else 20)
        said = failure(model)
    assert time.monotonic() - start < 20
    assert said.startswith(f"{server.url}: model 'm': ")
    assert said.endswith("(requests sent: 3)")
    assert reason in said
    assert len(server.asked) == model.usage.requests == 3


@pytest.mark.parametrize(
    "behaviour", [hangs_up, drips_body, endless_body, no_http, sends("oops", 500), answers("")]
)
def test_a_server_that_recovers_costs_a_retry(behaviour):
    with serving(behaviour, answers("here I am")) as server:
        model = model_at(server.url, timeout=1.5 if behaviour in SLOW else 20)
        assert asked(model).text == "here I am"
    assert model.usage.requests == 2


def test_a_server_that_is_down_is_tried_again_and_named():
    model = model_at(f"http://127.0.0.1:{closed_port()}/v1")
    assert "no answer: ConnectError" in failure(model)
    assert model.usage.requests == 3


LASTING = {
    301: "set base_url to the address it redirects to",
    400: "if it does not know JSON schemas set schema_decoding to false",
    401: "set the environment variable OPENAI_API_KEY to a key that is accepted there",
    403: "set the environment variable OPENAI_API_KEY to a key that is accepted there",
    404: "check base_url (it ends in /v1 as a rule) and model",
}


@pytest.mark.parametrize("status", LASTING)
def test_a_refusal_is_final_and_says_what_to_do(status: int):
    with serving(sends({"error": {"message": "no"}}, status, Location="http://127.0.0.1:9/")) as server:
        model = model_at(server.url)
        said = failure(model)
    assert f"status {status}, " in said
    assert LASTING[status] in said
    assert server.url in said
    assert model.usage.requests == 1


def waited(server: Server, **options: Any) -> float:
    start = time.monotonic()
    asked(model_at(server.url, **options))
    return time.monotonic() - start


@pytest.mark.parametrize(
    ("asked_for", "at_least", "at_most"),
    [("0.6", 0.6, 5), ("3600", 1, 5), ("Wed, 21 Oct 2065 07:28:00 GMT", 1, 5)],
)
def test_a_server_that_asks_to_wait_is_obeyed_up_to_a_bound(asked_for: str, at_least: float, at_most: float):
    with serving(sends("", 429, Retry_After=asked_for), answers("now")) as server:
        assert at_least <= waited(server, max_wait=1) < at_most
        assert len(server.asked) == 2


NO_DATES = ["Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 99 Oct 99999999 07:28:00 GMT"]


@pytest.mark.parametrize("header", [None, "", "soon", "-5", "nan", "inf", "1e999", "9" * 5000, *NO_DATES])
def test_a_wait_that_makes_no_sense_is_no_wait(header: str | None):
    assert _retry_after(header) == 0


def test_after_a_failure_nothing_more_is_asked_and_what_was_under_way_is_told():
    all_asked, refused = Barrier(3), Event()

    def refuses_the_first(handler: Handler) -> None:
        all_asked.wait(timeout=30)
        if content(handler) == "0":
            sends("no", 400)(handler)
            refused.set()
        else:
            refused.wait(timeout=30)
            time.sleep(0.3)
            answers("paid for")(handler)

    told: list[Mapping[int, Completion]] = []
    with serving(refuses_the_first) as server:
        with pytest.raises(ModelError, match="status 400") as raised:
            model_at(server.url, concurrency=3).complete(
                [ask(str(n)) for n in range(50)], GREEDY, told.append
            )
        assert raised.value.__context__ is None
        assert len(server.asked) == 3
    assert sorted(index for new in told for index in new) == [1, 2]
