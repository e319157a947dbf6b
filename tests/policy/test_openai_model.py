"""A model behind an endpoint: requests, completions, order, and what it says when it cannot answer."""

import pickle
import re
import threading
import time
import traceback
from collections.abc import Mapping
from threading import Barrier, Event
from typing import Any

import pytest
from support import misbehaving_endpoint as endpoint
from support.misbehaving_endpoint import Handler, answers, completion, sends, serving

from envgen.errors import ModelError
from envgen.processes import free_port
from policy.chat.contract import Completion, Message, Sampling, ask
from policy.chat.endpoint import Endpoint
from policy.chat.openai_model import CONCURRENCY, OpenAIModel

KEY = "sk-secret-0123456789abcdef"
GREEDY = Sampling(max_tokens=9)
SCHEMA = {"type": "object", "properties": {"a": {"type": "number"}}, "additionalProperties": False}


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch):
    """Wait hardly between the requests of a retry."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)


def model_at(url: str, key: str = KEY, concurrency: int = CONCURRENCY, **options: Any) -> OpenAIModel:
    fields = {"base_url": url, "model": "m", "timeout": 20, "retries": 1, **options}
    return OpenAIModel(Endpoint.model_validate(fields), key, concurrency=concurrency)


def asked(model: OpenAIModel) -> Completion:
    [answer] = model.complete([ask("Well?")], GREEDY)
    return answer


def failure(model: OpenAIModel) -> str:
    """The error of a model that cannot answer; it holds neither the key nor the request."""
    with pytest.raises(ModelError) as raised:
        asked(model)
    error = raised.value
    assert error.__context__ is None
    assert KEY[:12] not in "".join(traceback.format_exception(error))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert len(str(error)) < 1000
    return str(error)


def content(handler: Handler) -> str:
    return handler.question["messages"][0]["content"]


def test_a_request_has_sampling_schema_and_key_and_completions_come_in_order():
    progress: list[Mapping[int, Completion]] = []
    cut_off = answers("two", finish="length", prompt_tokens=7, completion_tokens=3)
    with serving(answers("one"), cut_off) as server:
        model = model_at(server.url, model="big/model", concurrency=1)
        sampling = Sampling(max_tokens=9, temperature=0.5, top_p=0.9, seed=3, json_schema=SCHEMA)
        first, second = model.complete([ask("1"), ask("2")], sampling, progress.append)
    assert first == Completion(text="one", finish_reason="stop", prompt_tokens=11, completion_tokens=5)
    assert second == Completion(text="two", finish_reason="length", prompt_tokens=7, completion_tokens=3)
    assert progress == [{0: first}, {1: second}]
    question, headers = server.asked[1]
    assert question.pop("seed") >= 0
    asks = {"model": "big/model", "messages": [{"role": "user", "content": "2"}], "max_tokens": 9}
    schema = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
    assert question == {**asks, "temperature": 0.5, "top_p": 0.9, "response_format": schema}
    assert headers["authorization"] == f"Bearer {KEY}"
    assert model.requests == 2
    assert model.complete([], GREEDY) == []


def test_free_text_has_no_schema_and_the_limit_may_have_its_other_name():
    with serving(answers("yes")) as server:
        conversation = (Message(role="system", content="Be brief."), *ask("?"))
        model_at(server.url, token_limit="max_completion_tokens").complete([conversation], GREEDY)
    question, _ = server.asked[0]
    assert question["max_completion_tokens"] == 9
    assert not {"max_tokens", "response_format", "top_p"} & set(question)
    assert [message["role"] for message in question["messages"]] == ["system", "user"]


@pytest.mark.parametrize(("temperature", "seeds"), [(1.0, 4), (0.0, 1)])
def test_every_sampled_conversation_has_a_seed_of_its_own_whatever_the_order(temperature: float, seeds: int):
    def asked_seeds(*texts: str, seed: int = 3) -> set[tuple[str, int]]:
        sampling = Sampling(max_tokens=9, temperature=temperature, seed=seed)
        with serving(answers("yes")) as server:
            model_at(server.url).complete([ask(text) for text in texts], sampling)
        return {(question["messages"][0]["content"], question["seed"]) for question, _ in server.asked}

    asked = asked_seeds("a", "b", "a", "a")
    assert len({seed for _, seed in asked}) == seeds
    assert asked == asked_seeds("a", "a", "b", "a")
    assert not asked & asked_seeds("a", "b", "a", "a", seed=4)


@pytest.mark.parametrize("usage", [None, {}])
def test_tokens_without_a_report_are_unknown(usage: object):
    with serving(sends({**completion("yes"), "usage": usage})) as server:
        answer = asked(model_at(server.url))
    assert (answer.text, answer.prompt_tokens, answer.completion_tokens) == ("yes", None, None)


def test_a_seed_is_below_two_to_the_31_and_can_be_left_out():
    with serving(answers("yes")) as server:
        for seed in (True, False):
            model_at(server.url, seed=seed).complete([ask("?")], Sampling(max_tokens=9, seed=2**32 - 1))
    assert [question.get("seed") for question, _ in server.asked] == [2**31 - 1, None]


PARTS = [{"type": "text", "text": text} for text in ("ye", "s")]


@pytest.mark.parametrize(
    "message",
    [
        {"content": "yes", "reasoning_content": "Hm."},
        {"content": "yes", "reasoning": "Hm.", "reasoning_content": None},
        {"content": [{"type": "thinking", "thinking": []}, *PARTS], "reasoning": "Hm."},
    ],
)
def test_thoughts_are_kept_apart(message: dict):
    usage = {"prompt_tokens": 7.0, "completion_tokens": 9}
    usage["completion_tokens_details"] = {"reasoning_tokens": 4}
    with serving(sends({"choices": [{"message": message}], "usage": usage})) as server:
        answer = asked(model_at(server.url))
    assert (answer.text, answer.reasoning) == ("yes", "Hm.")
    assert (answer.prompt_tokens, answer.completion_tokens, answer.reasoning_tokens) == (7, 9, 4)


@pytest.mark.parametrize("status", [400, 422])
def test_a_refused_schema_is_left_out_from_then_on(status: int):
    properties = {"maximum": {"type": "number", "minimum": 0, "maximum": 1}}
    strict = {"type": "object", "maxLength": 3, "properties": properties}
    schema = Sampling(max_tokens=9, json_schema=strict)
    with serving(sends("no", status), answers("yes")) as server:
        model = model_at(server.url)
        assert [model.complete([ask("?")], schema)[0].text for _ in range(2)] == ["yes", "yes"]
    first, second, third = (question for question, _ in server.asked)
    sent = first["response_format"]["json_schema"]["schema"]
    assert sent == {"type": "object", "properties": {"maximum": {"type": "number"}}}
    assert second == third == {key: value for key, value in first.items() if key != "response_format"}


def test_every_answer_is_whole_or_cut_off():
    ends = {"stop": "stop", "length": "length", "content_filter": "length", None: "stop", "new": "stop"}
    replies = [answers("text", finish=end) for end in ends]
    with serving(*replies, answers(None, finish="tool_calls")) as server:
        model = model_at(server.url)
        assert [asked(model).finish_reason for _ in ends] == [*ends.values()]
        assert (asked(model).text, len(server.asked)) == ("", len(ends) + 1)


def test_concurrency_is_bounded_and_answers_return_in_the_order_of_the_questions():
    active, counts = threading.Semaphore(0), []

    def echoes_the_last_first(handler: Handler) -> None:
        active.release()
        time.sleep(0.3 - 0.02 * int(content(handler)))
        counts.append(active._value)
        active.acquire()
        answers(content(handler))(handler)

    progress: list[Mapping[int, Completion]] = []
    with serving(echoes_the_last_first) as server:
        questions = [ask(str(n)) for n in range(12)]
        completions = model_at(server.url, concurrency=4).complete(questions, GREEDY, progress.append)
    assert max(counts) == 4
    assert [completion.text for completion in completions] == [str(n) for n in range(12)]
    assert sorted(index for new in progress for index in new) == list(range(12))


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (endpoint.hangs_up, "no answer: "),
        (endpoint.hangs, "no complete answer within 0.5 s"),
        (endpoint.no_http, "no answer: RemoteProtocolError"),
        (sends({"error": "slow"}, 429, Retry_After="0.1"), 'status 429, \'{"error": "slow"}\'; wait, raise'),
        (sends("<html>bad gateway</html>", 502), "status 502"),
        (sends("", 408), "status 408, ''"),
    ],
)
def test_a_failure_that_may_pass_costs_a_retry_and_then_names_endpoint_and_reason(behaviour, reason: str):
    timeout = 0.5 if behaviour is endpoint.hangs else 20
    with serving(behaviour) as server:
        model = model_at(server.url, timeout=timeout)
        message = failure(model)
    assert message.startswith(f"{server.url}: model 'm': ")
    assert reason in message
    assert len(server.asked) == model.requests == 2
    with serving(behaviour, answers("here I am")) as server:
        assert asked(model_at(server.url, timeout=timeout)).text == "here I am", "a server that recovers"
    assert len(server.asked) == 2


def test_a_server_that_sends_a_byte_at_a_time_is_given_up():
    with serving(endpoint.drips_body) as server:
        assert "no complete answer within 0.5 s" in failure(model_at(server.url, timeout=0.5, retries=0))


def test_a_server_that_is_down_is_named():
    assert "no answer: ConnectError" in failure(model_at(f"http://127.0.0.1:{free_port()}/v1"))


REMEDIES = {400: "change schema_decoding", 422: "change schema_decoding", 404: "check base_url"}
REMEDIES |= dict.fromkeys((401, 403), "set the environment variable OPENAI_API_KEY")
REFUSALS = [(sends({"error": "no"}, code), f"status {code}, .*{said}") for code, said in REMEDIES.items()]


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        *REFUSALS,
        (sends("<html>welcome</html>"), "no chat completion: the body: "),
        (sends("[" * 100_000), "no chat completion: the body: "),
        (sends({"answer": 42}), "no chat completion: choices.0.message: "),
        (sends({"choices": []}), "no chat completion: choices.0.message: "),
        (sends(completion(3)), "no chat completion: choices.0.message.content: "),  # type: ignore[arg-type]
        (sends(completion("yes", completion_tokens=-1)), "completion: usage.completion_tokens: "),
    ],
)
def test_a_refusal_and_what_is_no_completion_are_final_and_name_the_remedy_or_the_field(behaviour, said: str):
    with serving(behaviour) as server:
        model = model_at(server.url)
        assert re.search(said, failure(model))
    assert model.requests == 1


def test_after_a_failure_nothing_more_is_asked_and_requests_under_way_are_reported():
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

    progress: list[Mapping[int, Completion]] = []
    with serving(refuses_the_first) as server:
        questions = [ask(str(n)) for n in range(50)]
        with pytest.raises(ModelError, match="status 400"):
            model_at(server.url, concurrency=3).complete(questions, GREEDY, progress.append)
        assert len(server.asked) == 3
    assert sorted(index for new in progress for index in new) == [1, 2]
