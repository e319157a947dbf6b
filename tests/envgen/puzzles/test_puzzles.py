"""Puzzles of reasoning-gym: what is drawn, and scorers under attack."""

import hashlib
import json
import os
import subprocess
import sys
import unicodedata
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from pydantic import ValidationError

from envgen.environment import Instance, Source
from envgen.errors import ConfigError, SamplingError
from envgen.module.check import JUNK
from envgen.puzzles import family as puzzles
from envgen.puzzles.catalogue import PUZZLES, VERSION
from envgen.puzzles.family import PuzzleStratum, ReasoningGym
from envgen.registry import EnvironmentSpec
from envgen.rows import instance_of, instance_row

pytest.importorskip("reasoning_gym")


def made(*strata: dict) -> ReasoningGym:
    found = EnvironmentSpec(name="reasoning-gym", options={"strata": list(strata)}).resolved().load()
    assert isinstance(found, ReasoningGym)
    return found


def ranges(name: str) -> dict:
    return {
        "name": name,
        "generator": name,
        "settings": {key: [one.low, one.high] for key, one in PUZZLES[name].settings.items()},
    }


@pytest.fixture(scope="module")
def every() -> ReasoningGym:
    return made(*map(ranges, PUZZLES))


def some(family: ReasoningGym, stratum: str, count: int = 12) -> list[Instance]:
    """Questions at every corner of a stratum."""
    corners = family.corners(family.space[stratum])
    return [
        family.entry(stratum, corner, seed) for corner in corners for seed in range(-(-count // len(corners)))
    ]


@pytest.mark.parametrize("name", PUZZLES)
def test_references_are_right_at_every_corner_also_behind_json(every: ReasoningGym, name: str) -> None:
    read = [
        instance_of(every, json.loads(json.dumps(instance_row(every, one, "compact"))), "row")
        for one in some(every, name, 48)
    ]
    assert [
        one
        for one, verdict in zip(read, every.judge(read, [one.answer for one in read]), strict=True)
        if not verdict.valid
    ] == []


@pytest.mark.parametrize("name", PUZZLES)
def test_the_short_question_says_all_that_the_long_one_does(every: ReasoningGym, name: str) -> None:
    """Different problems differ in it, and its numbers and words come from the long one."""
    found = some(every, name, 60)
    assert len({every.prompt(one, "compact") for one in found}) == len({one.question for one in found})
    assert all(len(every.prompt(one, "compact")) <= len(every.prompt(one, "plain")) + 10 for one in found)


GOLDEN = "bb0945983db20a65"


def test_the_questions_are_those_of_the_pinned_version(every: ReasoningGym) -> None:
    """An upgrade that draws other questions, or asks them in other words, is seen."""
    found = [[one.question, one.answer, one.id] for name in sorted(PUZZLES) for one in some(every, name, 20)]
    assert VERSION == "0.1.25"
    assert hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16] == GOLDEN


GOLDEN_DATA = "622449546c6f7fb0"


def test_drawn_data_is_the_same_everywhere(every: ReasoningGym) -> None:
    """Rows as they are stored, on any version of Python; `envwright run` draws them so."""
    rows = []
    for stratum in every.space.strata:
        middle = {knob.name: (knob.low + knob.high) / 2 for knob in stratum.knobs}
        drawn = every.generate(stratum.name, middle, 12, Source(5, stage=1), frozenset())
        rows += [instance_row(every, one, "compact") for one in drawn.instances]
    assert hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16] == GOLDEN_DATA


def test_another_interpreter_with_another_hash_seed_draws_the_same(every: ReasoningGym) -> None:
    code = (
        "import json; from tests.envgen.puzzles.test_puzzles import *; f = made(*map(ranges, PUZZLES));"
        "print(json.dumps([[one.id for one in some(f, name, 8)] for name in PUZZLES]))"
    )
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [[one.id for one in some(every, name, 8)] for name in PUZZLES]


@pytest.mark.parametrize("name", [name for name, one in PUZZLES.items() if one.canonical])
def test_identities_are_of_the_problem(every: ReasoningGym, name: str) -> None:
    """Questions with one identity have answers of one worth, and some differ in words."""
    low = {knob.name: knob.low for knob in every.space[name].knobs}
    by_id: dict[str, list[Instance]] = {}
    for seed in range(1_500):
        one = every.entry(name, low, seed)
        by_id.setdefault(one.id, []).append(one)
    same = [found for found in by_id.values() if len({one.question for one in found}) > 1]
    assert same, "no two questions with other words were recognised as equal"
    for found in same:
        assert len({len(one.answer.split()) for one in found}) == 1
        if name != "shortest_path":
            assert len({one.answer for one in found}) == 1


def test_training_shares_no_instance_with_what_is_held_out(every: ReasoningGym) -> None:
    """By the identity named, on every stratum."""
    for stratum in every.space.strata:
        middle = {knob.name: (knob.low + knob.high) / 2 for knob in stratum.knobs}
        held = every.generate(
            stratum.name, middle, 20, Source(0, purpose="validation"), frozenset()
        ).instances
        ids = frozenset(one.id for one in held)
        drawn = every.generate(stratum.name, middle, 60, Source(0), ids).instances
        assert len({one.id for one in drawn} | ids) == 80, stratum.name


def test_labels_have_exact_counts() -> None:
    family = made(
        {"name": "paths", "generator": "shortest_path", "settings": {"side": 5, "infeasible_ratio": [0, 1]}}
    )
    drawn = family.generate("paths", {"infeasible_ratio": 0.3}, 40, Source(0), frozenset()).instances
    assert sum("infeasible" in one.labels for one in drawn) == 12
    assert sum(one.answer == "infeasible" for one in drawn) == 12
    never = made(
        {
            "name": "paths",
            "generator": "shortest_path",
            "settings": {"side": 5, "blocked": 0.45, "infeasible_ratio": 0},
        }
    )
    drawn = never.generate("paths", {}, 40, Source(0), frozenset()).instances
    assert not any(one.answer == "infeasible" or one.labels for one in drawn)


def test_no_program_rewrites_itself_to_nothing() -> None:
    family = made({"name": "programs", "generator": "ab", "settings": {"tokens": 4}})
    assert all(family.entry("programs", {}, seed).answer for seed in range(200))


def test_a_space_that_is_too_small_says_how_many_there_are() -> None:
    family = made({"name": "small", "generator": "products", "settings": {"digits": 1}})
    with pytest.raises(SamplingError, match="small: only 55 of 100 distinct instances"):
        family.generate("small", {}, 100, Source(0), frozenset())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"generator": "countdown"}, "none of those that may be used"),
        ({"generator": "chain_sum", "settings": {"digts": 2}}, "no such setting; known are terms, digits"),
        ({"generator": "chain_sum", "settings": {"digits": [1, 9]}}, "within 1 to 6"),
        ({"generator": "chain_sum", "settings": {"digits": [2, 2]}}, "no range"),
    ],
)
def test_wrong_strata_are_named(wrong: dict, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        PuzzleStratum.model_validate({"name": "x", **wrong})


def test_a_missing_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(puzzles, "find_spec", lambda _: None)
    family = ReasoningGym(puzzles.Options(strata=(PuzzleStratum(name="x", generator="ab"),)))
    with pytest.raises(ConfigError, match=r"pip install -c constraints\.txt -e '\.\[reasoning-gym\]'"):
        family.generate("x", {}, 1, Source(0), frozenset())


def attacks(one: Instance, canary: Path, rng: Random) -> list[str]:
    """Hostile answers: code, junk, and mutations of the right one."""
    code = f"__import__('os').system('touch {canary}')"
    right = one.answer
    answers = [
        *JUNK,
        code,
        f"[{code}]",
        f"['{code}']",
        f"{{{code}}}",
        f"lambda: {code}",
        f"{right} + {code}",
        "[" * 3000,
        "nan",
        "NaN+nanj",
        "-inf",
    ]
    alphabet = "0123456789+-*/().,[]{}'\"\\\n\t _xXeEjJ#ABnaifty\0\u0663\u2212\uff11\U0001f600"
    for _ in range(40):
        text = list(right)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(text) + 1)
            text[place : place + rng.randint(0, 2)] = rng.choice(alphabet)
        answers.append("".join(text))
    answers += ["".join(rng.choices(alphabet, k=rng.randint(1, 60))) for _ in range(30)]
    answers += [right * 2, f"{right} or {right[::-1]}", right + "\0", "answer: " + right]
    return answers


def letters(text: str) -> Counter[str]:
    """Letters and digits, those of other scripts as ours, counted."""
    return Counter(str(unicodedata.digit(c, c)) for c in text.lower() if c.isalnum())


@pytest.mark.parametrize("name", PUZZLES)
def test_scorers_under_attack(every: ReasoningGym, name: str, tmp_path: Path) -> None:
    """No code is run, nothing breaks a scorer, what is right has the reference's worth; 103,000 answers."""
    rng, canary = Random(name), tmp_path / "canary"
    pairs = [(one, text) for one in some(every, name, 64)[:64] for text in attacks(one, canary, rng)]
    verdicts = every.judge([one for one, _ in pairs], [text for _, text in pairs])
    assert not canary.exists()
    counted = Counter(verdict.category for verdict in verdicts)
    assert not counted["scorer_failed"], next(v.detail for v in verdicts if v.category == "scorer_failed")
    for (one, text), verdict in zip(pairs, verdicts, strict=True):
        if verdict.valid and name not in {"shortest_path", "palindrome_generation"}:
            # The same but for zeros in front or behind, signs, quotes and white space.
            assert letters(text) - letters(one.answer) <= Counter({"0": 9, "e": 1}), (
                one.answer,
                text,
            )
