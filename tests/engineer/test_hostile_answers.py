"""Hostile answers on their whole way, from a model's text to a stored proposal.

What comes of them is legal, and within bounds of time and memory.
"""

import json
import math
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from contexts import DEFAULT, LATEST, SPACE, ListModel, assert_legal, design_context, env_config, repeatable
from hypothesis import given, settings
from hypothesis import strategies as st

from engineer.answer import MAX_NAMED, AnswerError, answer_text, parse_answer, project
from engineer.proposal import MAX_TEXT, Attempt, Proposal, shortened
from engineer.propose import design
from engineer.spec import EngineerSpec

pytestmark = pytest.mark.timeout(120)

KNOBS = SPACE.numbers
GOOD = answer_text("Why not.", env_config({3: (0.4, 0.3, 0.5), 5: (0.6, 0.2, 0.25)}))
MEGABYTE = 2**20


def with_size(text: str) -> str:
    """An answer whose entry of 3x3 is this JSON."""
    return f'{{"config":{{"sizes":{{"3":{text},"5":{{"data_ratio":1}}}}}}}}'


def with_knob(text: str) -> str:
    """An answer whose hole_ratio of 3x3 is this JSON."""
    return with_size(f'{{"data_ratio":0.5,"hole_ratio":{text},"wait_ratio":0.5}}')


def nested(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


HORRORS = {
    "braces nested 100,000 deep": "{" * 100_000 + "}" * 100_000,
    "objects nested 100,000 deep": nested(100_000),
    "objects nested as deep as is read": nested(MAX_TEXT // 6 - 1),
    "lists nested as deep as is read": with_knob("[" * 9_900 + "]" * 9_900),
    "a size nested as deep as is read": with_size(nested(3_300)),
    "10 MB of open braces": "{" * 10_000_000,
    "10 MB of closed braces": "}" * 10_000_000,
    "10 MB of pairs of braces": "{}" * 5_000_000,
    "10 MB of spaces": " " * 10_000_000,
    "10 MB of spaces in an answer": GOOD.replace(":", ":" + " " * 10_000_000, 1),
    "10 MB after an answer": GOOD + "x" * 10_000_000,
    "10 MB of four-byte letters": "\U0001f600" * 2_500_000,
    "an integer of 5,000 digits": with_knob("7" * 5_000),
    "an integer of 19,000 digits": with_knob("7" * 19_000),
    "an integer of 300 digits": with_knob("7" * 300),
    "a fraction of 19,000 digits": with_knob("0." + "7" * 19_000),
    "an exponent of 19,000 digits": with_knob("1e" + "9" * 19_000),
    "an exponent of minus 19,000 digits": with_knob("1e-" + "9" * 19_000),
    "a map size of 5,000 digits": GOOD.replace('"3"', f'"{"3" * 5_000}"'),
    "as many map sizes as fit": with_size("1,"[:-1] + "".join(f',"{n}":1' for n in range(1_000, 2_900))),
    "as many map sizes twice as fit": with_size("1" + ',"4":1' * 3_000),
    "quotes and backslashes": '{"rationale":"' + "\\\\" * 9_000 + '\\"}',
    "escaped surrogates": '{"rationale":"' + "\\udfff\\ud800" * 1_500 + '","config":{"sizes":{}}}',
    "null characters": GOOD.replace("Why", "\x00" * 19_000),
    "a text direction and a joiner as digits": with_knob("\u202e0.5\u200d"),
    "full-width digits": with_knob("０.５"),
    "signs": with_knob("+0.5"),
    "hexadecimal": with_knob("0x1"),
    "underscores": with_knob("1_0"),
    "a leading zero": with_knob("00.5"),
    "Infinity": with_knob("Infinity"),
    "minus infinity": with_knob("-Infinity"),
    "not a number": with_knob("NaN"),
    "a number that overflows": with_knob("-1e999"),
}


@contextmanager
def bounded(seconds: float, megabytes: float) -> Iterator[None]:
    tracemalloc.start()
    before = time.process_time()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert time.process_time() - before < seconds
    assert peak < megabytes * MEGABYTE


def read(text: str) -> None:
    """A legal config, or an AnswerError whose message is short."""
    try:
        _, raw = parse_answer(text, SPACE)
        config, changes = project(raw, SPACE, DEFAULT)
    except AnswerError as error:
        refused = str(error)
        assert 0 < len(refused) < 300
        return
    assert_legal(config, SPACE)
    assert len(changes) <= MAX_NAMED + 1 + 2 * len(KNOBS) + 1
    assert all(len(change) < 200 for change in changes)


@pytest.mark.parametrize("text", HORRORS.values(), ids=list(HORRORS))
def test_a_horror_is_refused_or_legal_in_little_time_and_memory(text: str):
    with bounded(seconds=5, megabytes=1):
        read(text)


@pytest.mark.parametrize("text", HORRORS.values(), ids=list(HORRORS))
def test_a_horror_and_a_horrible_repair_cost_the_redesign_at_most(text: str):
    model = ListModel(text, text)
    with bounded(seconds=10, megabytes=4):
        proposal = design(EngineerSpec(name="base"), design_context(), 0, model, lambda config: (config, []))
        stored = proposal.model_dump_json()
    assert (proposal.config == LATEST) == (proposal.fallback is not None)
    assert_legal(proposal.config, SPACE)
    assert len(stored) < 20 * MAX_TEXT
    assert Proposal.model_validate_json(stored) == proposal
    assert all(len(message.content) < 20_000 for conversation, _ in model.asked for message in conversation)


@pytest.mark.parametrize("end", range(len(GOOD)))
def test_an_answer_that_breaks_off_is_refused_wherever_it_does(end: int):
    with pytest.raises(AnswerError):
        parse_answer(GOOD[:end], SPACE)


def test_a_negative_zero_becomes_zero():
    raw = {
        "sizes": {
            "3": {"data_ratio": -0.0, "hole_ratio": 0.2, "wait_ratio": -0.0},
            "5": {"data_ratio": 1, "hole_ratio": 0.2, "wait_ratio": 0},
        }
    }
    config, changes = project(raw, SPACE, DEFAULT)
    assert changes == ()
    assert [
        math.copysign(1, value) for value in (config.strata["3"].data_ratio, config.strata["3"]["wait_ratio"])
    ] == [1, 1]


@pytest.mark.parametrize(
    "value", [10**400, -(10**400), 7 ** (5 * 10**4)], ids=["large", "negative", "very large"]
)
def test_an_integer_beyond_all_floats_is_no_number(value: int):
    raw = {
        "sizes": {
            "3": {"data_ratio": 0.5, "hole_ratio": value, "wait_ratio": 0.5},
            "5": {"data_ratio": 0.5, "hole_ratio": 0.2, "wait_ratio": 0.5},
        }
    }
    config, changes = project(raw, SPACE, DEFAULT)
    assert config.strata["3"]["hole_ratio"] == 0.3
    assert changes == ("3x3 hole_ratio was missing or no number, the previous 0.3 was kept",)


def test_of_many_map_sizes_outside_of_the_space_a_few_are_named():
    raw = json.loads(GOOD)["config"]
    raw["sizes"] |= {str(size): 1 for size in range(100, 200)}
    _, changes = project(raw, SPACE, DEFAULT)
    assert changes[0] == "map size '100' is not in [3, 5] and was dropped"
    assert changes[MAX_NAMED:] == ("95 more map sizes are not in [3, 5] and were dropped",)


@pytest.mark.parametrize("length", [0, MAX_TEXT - 1, MAX_TEXT, MAX_TEXT + 1, 10**5 - 1, 10**5, 10**7])
def test_a_stored_answer_is_bounded_and_says_what_is_missing(length: int):
    text = "ä" * length
    stored = Attempt(
        text=text,
        finish_reason="stop",
        started=datetime.now(UTC),
        seconds=1,
        prompt_tokens=15,
        completion_tokens=6,
    ).text
    if length <= MAX_TEXT:
        assert stored == text
        return
    assert MAX_TEXT - 5 <= len(stored) <= MAX_TEXT
    assert stored == "ä" * stored.count("ä") + f" [{length - stored.count('ä')} more characters]"
    assert shortened(stored) == stored


tokens_of_json = st.sampled_from(
    [
        *'{}[],:"\\ ',
        '"3"',
        '"sizes"',
        "1e999",
        "-0",
        "NaN",
        "-Infinity",
        "null",
        "true",
        "\\ud800",
        "\x00",
        "９",
        "9" * 400,
    ]
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A good answer with a few spans replaced."""
    text = GOOD
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        text = (
            text[:start]
            + draw(tokens_of_json | st.text(st.characters(exclude_categories=["Cs"]), max_size=5))
            + text[end:]
        )
    return text


@settings(repeatable, max_examples=200)
@given(damaged(), damaged())
def test_any_damage_is_refused_or_legal_and_the_run_goes_on(first: str, second: str):
    read(first)
    proposal = design(
        EngineerSpec(name="base"),
        design_context(),
        0,
        ListModel(first, second),
        lambda config: (config, []),
    )
    assert_legal(proposal.config, SPACE)
    assert proposal.fallback is None or proposal.config == LATEST
    assert Proposal.model_validate_json(proposal.model_dump_json()) == proposal.model_copy(
        update={"state": {}}
    )


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.text(st.characters(), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["3", "5", "sizes", *KNOBS]), inner, max_size=4)
    ),
    max_leaves=8,
)
entries = anything | st.fixed_dictionaries({}, optional=dict.fromkeys(KNOBS, anything))


@settings(repeatable, max_examples=400)
@given(
    st.dictionaries(
        st.sampled_from(["3", "5", "+3", "٣"]) | st.text(st.characters(), max_size=3), entries, max_size=8
    )
)
def test_projection_makes_any_sizes_legal_or_says_that_no_share_is_left(sizes: dict):
    try:
        config, _ = project({"sizes": sizes}, SPACE, DEFAULT)
    except AnswerError as error:
        reason = str(error)
        assert reason == "every data_ratio is 0"
        return
    assert_legal(config, SPACE)
    assert "-0.0" not in config.model_dump_json()
