import gzip
import json
import logging
import pickle
import threading
import time
import traceback
from collections.abc import Mapping
from threading import Barrier, Event
from typing import Any

import pytest
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
from policy.chat.contract import Completion, Message, Sampling, ask
from policy.chat.endpoint import Endpoint, check_endpoint, read_key
from policy.chat.openai_model import CONCURRENCY, MAX_BODY, OpenAIModel, _retry_after

KEY = "sk-secret-0123456789abcdef"
QUICK = {"model": "m", "timeout": 20, "retries": 2, "backoff": 0.01, "max_wait": 0.2}
GREEDY = Sampling(max_tokens=9)
SLOW = (hangs, drips_body, drips_headers)


def model_at(url: str, key: str = KEY, concurrency: int = CONCURRENCY, **options: Any) -> OpenAIModel:
    return OpenAIModel(
        Endpoint.model_validate({"base_url": url, **QUICK, **options}), key, concurrency=concurrency
    )


def asked(model: OpenAIModel) -> Completion:
    """The answer to a question."""
    [found] = model.complete([ask("Well?")], GREEDY)
    return found


def failure(model: OpenAIModel) -> str:
    """What the model says when it cannot answer; the key is nowhere in it, nor does it hold on to the
    request."""
    with pytest.raises(ModelError) as raised:
        asked(model)
    error = raised.value
    assert error.__context__ is None
    assert error.__cause__ is None
    assert KEY not in "".join(traceback.format_exception(error))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert len(str(error)) < 1000
    return str(error)


def test_conversations_are_answered_in_order_with_what_was_asked_for():
    schema = {
        "type": "object",
        "properties": {"a": {"type": "number"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    done: list[Mapping[int, Completion]] = []
    sampling = Sampling(max_tokens=9, temperature=0.5, seed=3, json_schema=schema)
    cut_off = answers("two", finish="length", prompt_tokens=7, completion_tokens=3)
    with serving(answers("one"), cut_off) as server:
        model = model_at(server.url, model="big/model", concurrency=1)
        first, second = model.complete([ask("1"), ask("2")], sampling, done.append)
    assert first == Completion(text="one", finish_reason="stop", prompt_tokens=11, completion_tokens=5)
    assert second == Completion(text="two", finish_reason="length", prompt_tokens=7, completion_tokens=3)
    assert done == [{0: first}, {1: second}]
    question, headers = server.asked[1]
    assert question == {
        "model": "big/model",
        "messages": [{"role": "user", "content": "2"}],
        "temperature": 0.5,
        "seed": 3,
        "max_tokens": 9,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": schema},
        },
    }
    assert headers["authorization"] == f"Bearer {KEY}"
    assert model.usage.model_dump() == {"requests": 2, "prompt_tokens": 18, "completion_tokens": 8}


def test_free_text_is_asked_for_without_a_schema_and_under_the_limit_s_other_name():
    with serving(answers("yes")) as server:
        model_at(server.url, token_limit="max_completion_tokens").complete(
            [(Message(role="system", content="Be brief."), *ask("?"))], Sampling(max_tokens=9)
        )
    question, _ = server.asked[0]
    assert question["max_completion_tokens"] == 9
    assert not {"max_tokens", "response_format"} & set(question)
    assert [m["role"] for m in question["messages"]] == ["system", "user"]


def test_asking_for_nothing_sends_nothing():
    model = model_at(f"http://127.0.0.1:{closed_port()}/v1")
    assert model.complete([], Sampling(max_tokens=9)) == []
    assert model.usage.requests == 0


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


def test_a_missing_key_is_called_missing():
    with serving(sends("{}", 401)) as server:
        assert "it is not set now" in failure(model_at(server.url, key=""))
        assert "it is not set now" not in failure(model_at(server.url))


@pytest.mark.parametrize(
    ("behaviour", "answered"),
    [
        (sends({"error": {"message": f"Incorrect key: {KEY}."}}, 401, f"No {KEY}", X_Request_Id=KEY), False),
        (sends("x" * 190 + KEY, 403), False),
        (sends(KEY * 50, 500, Retry_After=KEY), False),
        (sends(f"no JSON, but {KEY}", 200, f"Fine {KEY}", X_Request_Id=KEY), False),
        (sends({"choices": [], KEY: KEY}), False),
        (answers(f"Your key is {KEY}."), True),
    ],
)
def test_a_key_that_the_server_repeats_is_seen_nowhere(
    behaviour, answered: bool, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    with serving(behaviour) as server:
        model = model_at(server.url)
        if answered:
            assert asked(model).text == "Your key is [key]."
        else:
            assert KEY[:12] not in failure(model)
    assert KEY not in caplog.text
    assert KEY not in repr(model)
    assert KEY not in model.usage.model_dump_json()


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


def test_tokens_of_failed_requests_count_too():
    broken = completion("", prompt_tokens=100, completion_tokens=50)
    shapeless = {"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 2}}
    with serving(sends(broken), sends(shapeless), answers("at last")) as server:
        model = model_at(server.url)
        asked(model)
    assert model.usage.model_dump() == {"requests": 3, "prompt_tokens": 141, "completion_tokens": 57}


@pytest.mark.parametrize(
    "usage",
    [
        None,
        3,
        {},
        {"prompt_tokens": -1, "completion_tokens": "9"},
        {"prompt_tokens": 1e300, "completion_tokens": True},
        {"prompt_tokens": 10**12},
    ],
)
def test_a_report_of_tokens_that_makes_no_sense_counts_as_none(usage: object):
    with serving(sends({**completion("yes"), "usage": usage})) as server:
        found = asked(model_at(server.url))
    assert (found.text, found.prompt_tokens, found.completion_tokens) == ("yes", 0, 0)


FINISHES = {"stop": "stop", "length": "length", "content_filter": "length", "tool_calls": "stop"}


@pytest.mark.parametrize(("finish", "read_as"), [*FINISHES.items(), (None, "stop"), ("new in 2031", "stop")])
def test_every_reason_to_finish_is_read_as_whole_or_cut_off(finish: str | None, read_as: str):
    with serving(answers("text", finish=finish)) as server:
        assert asked(model_at(server.url)).finish_reason == read_as


def test_an_answer_of_full_length_that_is_empty_is_not_asked_for_again():
    with serving(answers("", finish="length")) as server:
        found = asked(model_at(server.url))
        assert (found.text, found.finish_reason, len(server.asked)) == ("", "length", 1)


def test_where_answers_are_judged_an_empty_one_is_an_answer():
    with serving(answers("")) as server:
        found = asked(OpenAIModel(model_at(server.url).endpoint, "", empty_answers=True))
        assert (found.text, found.finish_reason, len(server.asked)) == ("", "stop", 1)


def test_it_answers_inside_of_a_running_event_loop():
    import asyncio

    async def inside() -> str:
        return asked(model_at(server.url)).text

    with serving(answers("yes")) as server:
        assert asyncio.run(inside()) == "yes"


NO_VARIABLES = [KEY, "0123456789abcdef0123456789abcdef", "a1b2c3d4secret", "", KEY * 50]
NO_ADDRESSES = [
    f"https://me:{KEY}@host/v1",
    f"https://{KEY}@host/v1",
    f"https://host/v1?key={KEY}",
    f"https://host/v1#{KEY}",
    f"http://host:{KEY}/v1",
    "http://host:99999/v1",
    "http://[::1/v1",
    "ftp://host/v1",
    "host/v1",
    "http://",
    "http://host/v1\nX: y",
    "",
    f"http://host/{KEY * 50}",
]


@pytest.mark.parametrize(
    ("field", "value"),
    [*(("api_key_env", one) for one in NO_VARIABLES), *(("base_url", one) for one in NO_ADDRESSES)],
)
def test_an_endpoint_that_cannot_be_or_holds_a_key_is_refused_without_repeating_it(field: str, value: str):
    with pytest.raises(ValueError, match=f"^{field}: expected ") as refused:
        check_endpoint(Endpoint.model_validate({"model": "m", field: value}))
    assert "secret" not in str(refused.value)
    assert "0123" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://api.openai.com/v1",
        "http://localhost:8000/v1",
        "http://[::1]:8000/v1",
        "https://a.b/c/openai/v1/",
    ],
)
def test_an_endpoint_s_address_may_be_anywhere(url: str):
    check_endpoint(Endpoint(model="m", base_url=url, api_key_env="MY_KEY_2"))


def test_the_key_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    endpoint = Endpoint(model="m", api_key_env="MY_KEY")
    monkeypatch.delenv("MY_KEY", raising=False)
    assert read_key(endpoint) == ""
    monkeypatch.setenv("MY_KEY", f" {KEY}\n")
    assert read_key(endpoint) == KEY
    for wrong in (f"{KEY}\nX: y", f"Bearer {KEY}", f"{KEY}ä"):
        monkeypatch.setenv("MY_KEY", wrong)
        with pytest.raises(ModelError, match="MY_KEY holds characters that no key has") as refused:
            read_key(endpoint)
        assert KEY not in str(refused.value)


def content(handler: Handler) -> str:
    return handler.question["messages"][0]["content"]


@pytest.mark.parametrize("concurrency", [1, 4])
def test_so_many_conversations_are_under_way_at_once_and_each_is_told_once(concurrency: int):
    under_way, counts = threading.Semaphore(0), []

    def counts_and_echoes(handler: Handler) -> None:
        under_way.release()
        time.sleep(0.1)
        counts.append(under_way._value)
        under_way.acquire()
        answers(content(handler))(handler)

    told: list[Mapping[int, Completion]] = []
    with serving(counts_and_echoes) as server:
        found = model_at(server.url, concurrency=concurrency).complete(
            [ask(str(n)) for n in range(12)], GREEDY, told.append
        )
    assert max(counts) == concurrency
    assert [completion.text for completion in found] == [str(n) for n in range(12)]
    assert sorted(index for new in told for index in new) == list(range(12))
    assert {index: completion for new in told for index, completion in new.items()} == dict(enumerate(found))


def test_answers_that_arrive_in_another_order_are_returned_in_that_of_the_questions():
    arrived: list[int] = []

    def echoes_the_last_first(handler: Handler) -> None:
        time.sleep(0.5 - 0.05 * int(content(handler)))
        arrived.append(int(content(handler)))
        answers(content(handler))(handler)

    with serving(echoes_the_last_first) as server:
        found = model_at(server.url, concurrency=10).complete(
            [ask(str(n)) for n in range(10)], Sampling(max_tokens=9)
        )
    assert arrived != sorted(arrived)
    assert [completion.text for completion in found] == [str(n) for n in range(10)]


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


def test_a_key_is_taken_out_however_json_writes_it():
    key = 'sk-"quoted"/and\\slashed'
    model = model_at("http://127.0.0.1:9/v1", key=key)
    once = json.dumps(key)[1:-1]
    twice = json.dumps(once)[1:-1]
    letters = "".join(f"\\u{ord(c):04X}" for c in key)
    for form in (
        key,
        letters,
        letters.lower().replace("\\", "\\\\"),
        once,
        once.replace("/", "\\/"),
        twice,
        twice.replace("/", "\\\\/"),
    ):
        assert model._quoted(f'{{"error": "{form}"}}'.encode()) == repr('{"error": "[key]"}')
