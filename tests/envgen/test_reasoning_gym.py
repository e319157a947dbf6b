"""Puzzles of reasoning-gym: what is drawn, and scorers under attack."""

import hashlib
import json
import unicodedata
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from pydantic import ValidationError

from envgen import reasoning_gym
from envgen.environment import Instance, Source
from envgen.errors import SamplingError
from envgen.module.check import JUNK
from envgen.module.user_file import bounds
from envgen.reasoning_gym import GENERATORS, VERSION, Puzzles, PuzzleStratum, ReasoningGym
from envgen.registry import EnvironmentSpec
from envgen.rows import instance_of, instance_row

pytest.importorskip("reasoning_gym")


def load(*strata: dict) -> ReasoningGym:
    environment = EnvironmentSpec(name="reasoning-gym", options={"strata": list(strata)}).resolved().load()
    assert isinstance(environment, ReasoningGym)
    return environment


@pytest.fixture(scope="module")
def puzzles() -> ReasoningGym:
    """All generators, with each setting as a knob."""
    ends = {name: bounds(puzzle.config).items() for name, puzzle in GENERATORS.items()}
    settings = {name: {field: end for field, (_, *end) in fields} for name, fields in ends.items()}
    return load(*({"name": name, "generator": name, "settings": settings[name]} for name in GENERATORS))


def draw(environment: ReasoningGym, stratum: str, count: int = 12) -> list[Instance]:
    """Return at least `count` instances of a stratum, at every corner."""
    corners = environment.corners(environment.space[stratum])
    seeds = range(-(-count // len(corners)))
    return [environment.entry(stratum, corner, seed) for corner in corners for seed in seeds]


@pytest.mark.parametrize("name", GENERATORS)
def test_references_are_valid_at_every_corner_also_from_json(puzzles: ReasoningGym, name: str) -> None:
    instances = draw(puzzles, name, 40)
    rows = [json.loads(json.dumps(instance_row(puzzles, one, "compact"))) for one in instances]
    copies = [instance_of(puzzles, row, "row") for row in rows]
    assert copies == instances
    verdicts = puzzles.judge(copies, [one.answer for one in copies])
    assert all(verdict.valid for verdict in verdicts)
    # Different problems differ in the short question too.
    assert len({row["prompt"] for row in rows}) == len({one.question for one in instances})
    assert all(len(row["prompt"]) <= len(row["question"]) + 10 for row in rows)


def test_instances_are_the_same_in_every_version_and_process(puzzles: ReasoningGym) -> None:
    """An upgrade that draws other questions, or asks them in other words, is seen."""

    def corners(puzzles: ReasoningGym) -> list[list[list[str]]]:
        drawn = (draw(puzzles, name, 20) for name in sorted(GENERATORS))
        return [[[one.question, one.answer, one.id] for one in instances] for instances in drawn]

    before, rows = corners(puzzles), []
    for stratum in puzzles.space.strata:
        middle = {knob.name: (knob.low + knob.high) / 2 for knob in stratum.knobs}
        sample = puzzles.generate(stratum.name, middle, 12, Source(5, stage=1), frozenset())
        rows += [instance_row(puzzles, one, "compact") for one in sample.instances]
    digests = [hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16] for value in (before, rows)]
    assert (VERSION, digests) == ("0.1.25", ["cd598a3965d02734", "0dd5dcf4d7821123"])
    other = ReasoningGym(puzzles.options)
    other.worker.hash_seed = "7"
    assert corners(other) == before
    other.worker.close()


@pytest.mark.parametrize("name", ["chain_sum", "products", "shortest_path"])
def test_equal_problems_have_equal_ids(puzzles: ReasoningGym, name: str) -> None:
    low = {knob.name: knob.low for knob in puzzles.space[name].knobs}
    by_id: dict[str, list[Instance]] = {}
    for seed in range(1_000):
        instance = puzzles.entry(name, low, seed)
        by_id.setdefault(instance.id, []).append(instance)
    equal = [group for group in by_id.values() if len({one.question for one in group}) > 1]
    assert equal, "no two questions in other words were recognised as equal"
    for group in equal:
        assert len({len(one.answer.split()) for one in group}) == 1
        assert name == "shortest_path" or len({one.answer for one in group}) == 1


@pytest.fixture(scope="module")
def constants() -> ReasoningGym:
    """Strata most of whose settings are numbers."""
    return load(
        {"name": "paths", "generator": "shortest_path", "settings": {"side": 5, "infeasible_ratio": [0, 1]}},
        {"name": "open", "generator": "shortest_path", "settings": {"blocked": 0.45, "infeasible_ratio": 0}},
        {"name": "programs", "generator": "ab", "settings": {"tokens": 4}},
        {"name": "small", "generator": "products", "settings": {"digits": 1}},
    )


def test_labels_have_exact_counts(constants: ReasoningGym) -> None:
    sample = constants.generate("paths", {"infeasible_ratio": 0.3}, 40, Source(0), frozenset()).instances
    assert sum("infeasible" in one.labels for one in sample) == 12
    assert sum(one.answer == "infeasible" for one in sample) == 12
    sample = constants.generate("open", {}, 40, Source(0), frozenset()).instances
    assert not any(one.answer == "infeasible" or one.labels for one in sample)


def test_no_program_rewrites_itself_to_nothing_and_too_small_a_space_names_its_size(
    constants: ReasoningGym,
) -> None:
    assert all(constants.entry("programs", {}, seed).answer for seed in range(200))
    with pytest.raises(SamplingError, match="small: only 55 of 100 distinct instances"):
        constants.generate("small", {}, 100, Source(0), frozenset())


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"generator": "countdown"}, "'countdown' is not allowed"),
        ({"generator": "chain_sum", "settings": {"digts": 2}}, "no such field; known are terms, digits"),
        ({"generator": "chain_sum", "settings": {"digits": [1, 9]}}, "within 1 to 6"),
        ({"generator": "chain_sum", "settings": {"digits": [2, 2]}}, "no range"),
        ({"generator": "chain_sum", "settings": {"digits": 2.5}}, "settings: digits: .*valid integer.* 2.5"),
    ],
)
def test_wrong_strata_are_named(wrong: dict, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        PuzzleStratum.model_validate({"name": "x", **wrong})


def test_a_missing_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasoning_gym, "find_spec", lambda _: None)
    with pytest.raises(ValueError, match=r"pip install -e '\.\[reasoning-gym\]'"):
        Puzzles({})


def attacks(one: Instance, canary: Path, rng: Random) -> list[str]:
    """Return hostile answers: code, junk, and mutations of the reference."""
    code, right = f"__import__('os').system('touch {canary}')", one.answer
    answers = [*JUNK, code, f"[{code}]", f"['{code}']", f"{{{code}}}", f"lambda: {code}", f"{right} + {code}"]
    answers += ["NaN+nanj", right * 2, f"{right} or {right[::-1]}", right + "\0", "answer: " + right]
    alphabet = "0123456789+-*/().,[]{}'\"\\\n\t _xXeEjJ#ABnaifty\0\u0663\u2212\uff11\U0001f600"
    for _ in range(40):
        text = list(right)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(text) + 1)
            text[place : place + rng.randint(0, 2)] = rng.choice(alphabet)
        answers.append("".join(text))
    return answers + ["".join(rng.choices(alphabet, k=rng.randint(1, 60))) for _ in range(20)]


def letters(text: str) -> Counter[str]:
    """Return the counts of letters and digits, with digits of all scripts as ASCII."""
    return Counter(str(unicodedata.digit(c, c)) for c in text.lower() if c.isalnum())


@pytest.mark.parametrize("name", GENERATORS)
def test_scorers_under_attack(puzzles: ReasoningGym, name: str, tmp_path: Path) -> None:
    """No code is run, nothing breaks a scorer, and only the reference is valid."""
    rng, canary = Random(name), tmp_path / "canary"
    pairs = [(one, text) for one in draw(puzzles, name, 16)[:16] for text in attacks(one, canary, rng)]
    verdicts = puzzles.judge([one for one, _ in pairs], [text for _, text in pairs])
    assert not canary.exists()
    for (one, text), verdict in zip(pairs, verdicts, strict=True):
        assert verdict.category != "scorer_failed", verdict.detail
        if verdict.valid and name != "shortest_path":
            # The same but for zeros in front or behind, signs, quotes and white space.
            assert letters(text) - letters(one.answer) <= Counter({"0": 9, "e": 1}), (one.answer, text)
