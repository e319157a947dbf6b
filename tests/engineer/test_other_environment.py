"""The whole room over environments other than boards: nothing in it knows what a stratum or a knob is."""

import re

import numpy as np
import pytest
from contexts import SUMS, ListModel, assert_legal, repeatable, sums_config
from hypothesis import given
from hypothesis import strategies as st
from support.designs import answer_text, random_context

from engineer.answer import AnswerError, answer_schema, parse_answer, project
from engineer.context import DesignContext
from engineer.engineers.registry import resolve
from engineer.prompt import design_prompt
from engineer.propose import design
from engineer.spec import EngineerSpec
from envgen.breakdown import Breakdown, Counts, Labelled
from envgen.estimates import Difference
from envgen.space import Knob, Label, Space, Stratum

RULES = ("frontier", "learnability", "gaussian", "bandit", "window", "levels", "random", "fixed")
OF_BOARDS = re.compile(r"map size|\bhole|\bwaits?\b|agent|board|grid|\bplans?\b|\dx\d|optimal", re.IGNORECASE)
RISE = Difference(value=0.1, low=0.02, high=0.18, p=0.01)
FALL = Difference(value=-0.1, low=-0.18, high=-0.02, p=0.01)


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
NEW = sums_config({2: (0.3, 3, 0.75), 3: (0.7, 1.5, 0)})
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
    current = made_up(0, SUMS).current.model_copy(update={"breakdown": SEEN, "config": OLD})
    text = design_prompt(made_up(0, SUMS).model_copy(update={"current": current}), "V1")
    assert "2 terms: valid 80% [71%, 87%]; failures: wrong 20%\n" in text


def test_the_schema_gives_each_stratum_its_own_knobs():
    strata = answer_schema(MIXED)["properties"]["edits"]["properties"]
    assert {name: list(one["properties"]) for name, one in strata.items()} == {
        "maze": ["data_ratio", "deep", "odd"],
        "word": ["data_ratio", "deep", "rare"],
        "coin": ["data_ratio"],
    }
    assert strata["word"]["properties"]["deep"] == {"type": "number", "minimum": 1, "maximum": 5}


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
    context = made_up(seed, space)
    trained = dict.fromkeys(space.names[1:], 0.5)
    current = context.current.model_copy(update={"advantage": trained})
    context = context.model_copy(update={"current": current})
    spec = resolve(EngineerSpec(name=rule), space, 4)
    proposal = design(spec, context, seed, None, lambda config: (config, []))
    assert proposal.fallback is None
    assert_legal(proposal.config, space)
    assert not OF_BOARDS.search(proposal.rationale)


def test_levels_move_every_knob_by_its_step():
    current = made_up(0, SUMS).current.model_copy(update={"config": OLD, "breakdown": SEEN})
    context = made_up(0, SUMS).model_copy(update={"current": current})
    config = design(EngineerSpec(name="levels"), context, 0, None, lambda config: (config, [])).config
    assert tuple(config.strata["2"].knobs.values()) == (3, 0.75)


def test_a_model_designs_sums():
    model = ListModel(answer_text("More data for 3 terms.", NEW))
    context = made_up(0, SUMS)
    proposal = design(EngineerSpec(), context, 0, model, lambda config: (config, []))
    assert (proposal.config, proposal.rationale) == (NEW, "More data for 3 terms.")
    assert model.asked[0][1].json_schema == answer_schema(SUMS)
