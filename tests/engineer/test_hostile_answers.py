"""Hostile answers on their way to a stored proposal: what results is legal, in bounded time and memory."""

import json
import time
import tracemalloc

import pytest
from contexts import DEFAULT, LATEST, SPACE, ListModel, assert_legal, designed, env_config, repeatable
from hypothesis import given, settings
from hypothesis import strategies as st
from support.designs import answer_text

from engineer.answer import AnswerError, parse_answer, project
from engineer.contract import Proposal, shortened
from engineer.json_text import MAX_TEXT
from engineer.spec import EngineerSpec

pytestmark = pytest.mark.timeout(120)
GOOD = answer_text("Why not.", env_config({3: (0.4, 0.3, 0.5), 5: (0.6, 0.2, 0.25)}))
MEGABYTE = 2**20


def with_knob(text: str) -> str:
    """An answer whose hole_ratio of 3x3 is this JSON."""
    return GOOD.replace('"hole_ratio":0.30', f'"hole_ratio":{text}', 1)


HORRORS = {
    "braces nested 100,000 deep": "{" * 100_000 + "}" * 100_000,
    "objects nested as deep as is read": '{"a":' * (MAX_TEXT // 6) + "1" + "}" * (MAX_TEXT // 6),
    "lists nested as deep as is read": with_knob("[" * 9_900 + "]" * 9_900),
    "10 MB of pairs of braces": "{}" * 5_000_000,
    "10 MB after an answer": GOOD + "x" * 10_000_000,
    "an integer of 19,000 digits": with_knob("7" * 19_000),
    "an exponent of 19,000 digits": with_knob("1e" + "9" * 19_000),
    "as many strata as fit": GOOD.replace('"5":', "".join(f'"{n}":1,' for n in range(100, 2_800)) + '"5":'),
    "quotes and backslashes": '{"rationale":"' + "\\\\" * 9_000 + '\\"}',
    "null characters": GOOD.replace("Why", "\x00" * 19_000),
    "full-width digits": with_knob("０.５"),
    "hexadecimal": with_knob("0x1"),
}


def read(text: str) -> None:
    """Read and project an answer: the config is legal, or an AnswerError has a short message."""
    try:
        _, raw = parse_answer(text, SPACE)
        config, changes = project(raw, SPACE, DEFAULT)
    except AnswerError as error:
        message = str(error)
        assert 0 < len(message) < 300
        return
    assert_legal(config, SPACE)
    assert len(changes) < 20
    assert all(len(change) < 200 for change in changes)


def redesigned(*answers: str) -> tuple[Proposal, ListModel]:
    """Return the proposal of an engineer whose model gives these answers, after it was stored and read."""
    model = ListModel(*answers)
    proposal = designed(EngineerSpec(name="base"), model=model)
    stored = proposal.model_dump_json()
    json.loads(stored, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert len(stored) < 20 * MAX_TEXT
    assert Proposal.model_validate_json(stored) == proposal.model_copy(update={"state": {}})
    assert_legal(proposal.config, SPACE)
    assert proposal.fallback is None or proposal.config == LATEST
    return proposal, model


@pytest.mark.parametrize("text", HORRORS.values(), ids=list(HORRORS))
def test_a_horror_and_a_horrible_repair_cost_the_redesign_at_most(text: str):
    redesigned(GOOD)  # imports and compiled templates are no part of the measurement
    tracemalloc.start()
    started = time.process_time()
    try:
        read(text)
        _, model = redesigned(text, text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert time.process_time() - started < 10
    assert peak < 4 * MEGABYTE
    assert all(len(message.content) < 20_000 for conversation, _ in model.asked for message in conversation)


def test_an_answer_that_breaks_off_is_refused_wherever_it_does():
    for end in range(len(GOOD)):
        with pytest.raises(AnswerError):
            parse_answer(GOOD[:end], SPACE)


@pytest.mark.parametrize("length", [0, MAX_TEXT, MAX_TEXT + 1, 10**7])
def test_a_stored_text_is_bounded_and_says_how_much_is_missing(length: int):
    stored = shortened("ä" * length)
    letters = stored.count("ä")
    assert stored == (
        "ä" * length if length <= MAX_TEXT else f"{'ä' * letters} [{length - letters} more characters]"
    )
    assert len(stored) <= MAX_TEXT
    assert shortened(stored) == stored


TOKENS = [*'{}[],:"\\ ', '"3"', '"sizes"', "1e999", "-0", "NaN", "null", "true", "\\ud800", "\x00", "９"]
tokens = st.sampled_from([*TOKENS, "9" * 400]) | st.text(st.characters(), max_size=5)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A good answer with a few spans replaced, or any text."""
    text = draw(st.sampled_from([GOOD, GOOD, f"```json\n{GOOD}\n```", ""]))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        text = text[:start] + draw(tokens) + text[end:]
    return text


@settings(repeatable, max_examples=300)
@given(damaged(), damaged())
def test_any_damage_is_refused_or_legal_and_the_run_continues(first: str, second: str):
    read(first)
    redesigned(first, second)
