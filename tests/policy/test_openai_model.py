"""What an endpoint is asked, and what is made of its answers, one after the other and at once."""

import threading
import time
from collections.abc import Mapping

import pytest
from asked_endpoints import GREEDY, KEY, asked, content, model_at
from support.misbehaving_endpoint import Handler, answers, closed_port, completion, sends, serving

from policy.chat.contract import Completion, Message, Sampling, ask
from policy.chat.openai_model import OpenAIModel


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
