"""The whole room over environments other than boards: nothing in it knows what a stratum or a knob is."""

import re

import numpy as np
import pytest
from contexts import SPACE, SUMS, assert_legal, designed, repeatable, sums_config, updated
from hypothesis import given
from hypothesis import strategies as st
from support.designs import random_context

from engineer.answer import AnswerError, answer_schema, parse_answer, project
from engineer.context import DesignContext
from engineer.engineers.registry import resolve
from engineer.prompt import design_prompt
from engineer.spec import EngineerSpec
from envgen.breakdown import Breakdown, Counts, Labelled
from envgen.space import Knob, Label, Space, Stratum

RULES = ("frontier", "learnability", "gaussian", "bandit", "window", "levels", "random", "fixed")
OF_BOARDS = re.compile(r"map size|\bhole|\bwaits?\b|agent|board|grid|\bplans?\b|\dx\d|optimal", re.IGNORECASE)


def knob(name: str, low: float = 0, high: float = 1, label: str = "") -> Knob:
    says = Label(name=label, condition=f"it is {label}", present=f"if {label}", absent="else")
    words = {"name": name, "word": f"{name}s", "description": f"how {name} it is"}
    return Knob(low=low, high=high, default=low, step=0.5, label=says if label else None, **words)


MIXED = Space(
    strata=(
        Stratum(name="maze", label="mazes", knobs=(knob("deep", 1, 9), knob("odd", label="odd"))),
        Stratum(name="word", label="word puzzles", knobs=(knob("deep", 1, 5), knob("rare", label="rare"))),
        Stratum(name="coin", label="coins"),
    ),
    noun="puzzle",
    task="solves puzzles",
    guideline="Ask for more of what is nearly solved.",
    categories=("unreadable", "wrong"),
)
"""Strata of which none has the knobs of another."""

spaces = st.sampled_from([SUMS, MIXED])
seeds = st.integers(0, 2**32 - 1)


def made_up(seed: int, space: Space) -> DesignContext:
    return random_context(np.random.default_rng(seed), space)


def part(valid: int, carried: int, carried_valid: int) -> Counts:
    failures = {"unreadable": 0, "wrong": 100 - valid}
    labels = {"carry": Labelled(n=carried, valid=carried_valid)}
    return Counts(n=100, valid=valid, optimal=valid, failures=failures, labels=labels)


OLD = sums_config({2: (0.5, 2, 0.5), 3: (0.5, 1.5, 0.25)})
SEEN = Breakdown(strata={"2": part(80, 50, 35), "3": part(40, 50, 10)})


@pytest.mark.parametrize("space", [SUMS, MIXED], ids=["sums", "mixed"])
def test_a_question_has_the_words_of_its_environment_and_none_of_another(space: Space):
    for seed in range(8):
        text = design_prompt(made_up(seed, space), "FWEGHDST")
        assert not OF_BOARDS.search(text), text
        for word in (space.task, space.noun, space.guideline, *map(space.label, space.names)):
            assert word in text
        assert all(one.name in text for one in space.knobs)


def test_the_question_tells_the_knobs_of_sums():
    text = design_prompt(made_up(0, SUMS), "V2")
    assert "; digits (digits), the digits of each number; of 1.5 half of the sums have one" in text
    assert "; carry_ratio (carries), the share of the sums in which a digit is carried, 0 to 1." in text
    assert '"edits":{"3":{"data_ratio":0.30,"digits":1.00,"carry_ratio":0.00}}' in text


def test_the_labels_are_told_of_each_knob_that_asks_for_one():
    text = design_prompt(made_up(0, MIXED), "V6W")
    for label in ("odd", "rare"):
        assert f"Valid by whether it is {label}, which {label} sets:" in text
    assert "coins: if" not in text
    assert "deep (deeps), how deep it is, 1 to 9 for mazes; 1 to 5 for word puzzles" in text


def test_only_what_is_said_of_an_answer_is_shown_of_it():
    text = design_prompt(updated(made_up(0, SUMS), breakdown=SEEN, config=OLD), "V1")
    assert "2 terms: valid 80% [71%, 87%]; failures: wrong 20%\n" in text


def test_the_schema_takes_any_number_of_each_stratum_and_forbids_all_else():
    schema = answer_schema(MIXED)
    edits = schema["properties"]["edits"]
    strata = edits["properties"]
    named = {name: [*one["properties"]] for name, one in strata.items()}
    knobs = {"maze": ["deep", "odd"], "word": ["deep", "rare"], "coin": []}
    assert [*named.items()] == [(name, ["data_ratio", *some]) for name, some in knobs.items()]
    assert strata["word"]["properties"]["deep"] == {"type": "number", "minimum": 1, "maximum": 5}
    assert schema["required"] == ["rationale", "edits"]
    assert all(one["required"] == [] for one in (edits, *strata.values()))
    objects = [schema, edits, *strata.values()]
    assert all(one["type"] == "object" and one["additionalProperties"] is False for one in objects)
    part = answer_schema(SPACE)["properties"]["edits"]["properties"]["5"]
    assert part["properties"]["hole_ratio"] == {"type": "number", "minimum": 0, "maximum": 0.5}


def test_an_answer_about_sums_is_read_and_projected():
    terms = '{"2":{"data_ratio":0.5,"digits":9},"9":{},"3":{"data_ratio":0.5}}'
    text = f'{{"rationale":"x","config":{{"terms":{terms}}}}}'
    config, changes = project(parse_answer(text, SUMS)[1], SUMS, OLD)
    assert config == sums_config({2: (0.5, 6, 0.5), 3: (0.5, 1.5, 0.25)})
    assert changes == (
        "kind of sum '9' is not in [2, 3] and was dropped",
        "2 terms digits 9 was clamped to 1..6",
        "2 terms carry_ratio was missing or no number, the previous 0.5 was kept",
        "3 terms digits was missing or no number, the previous 1.5 was kept",
        "3 terms carry_ratio was missing or no number, the previous 0.25 was kept",
    )
    with pytest.raises(AnswerError, match=r"lacks edits, a map from kind of sum"):
        parse_answer('{"config": {"sizes": {}}}', SUMS)


@repeatable
@given(seeds, spaces, st.sampled_from(RULES))
def test_every_rule_engineer_designs(seed: int, space: Space, rule: str):
    context = updated(made_up(seed, space), advantage=dict.fromkeys(space.names[1:], 0.5))
    proposal = designed(resolve(EngineerSpec(name=rule), space, 4), context, seed=seed)
    assert proposal.fallback is None
    assert_legal(proposal.config, space)
    assert not OF_BOARDS.search(proposal.rationale)


def test_levels_move_every_knob_by_its_step():
    context = updated(made_up(0, SUMS), config=OLD, breakdown=SEEN)
    config = designed(EngineerSpec(name="levels"), context).config
    assert tuple(config.strata["2"].knobs.values()) == (3, 0.75)
