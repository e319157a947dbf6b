"""An environment that an installed package brings: one class, named by an entry point."""

from pathlib import Path

import pytest

from envgen.environment import Environment, Source
from envgen.errors import ConfigError
from envgen.registry import EnvironmentSpec, _load
from envgen.rows import instance_of, instance_row

CODE = '''
"""Words to rotate to the left."""

from string import ascii_lowercase

from envgen.environment import Environment, Instance, Verdict
from envgen.space import Knob, Space, Stratum


def stratum(name, low, high):
    letters = Knob(name="letters", low=low, high=high, step=1, whole=True, description="letters of the word")
    return Stratum(name=name, label=f"{name} words", knobs=(letters,))


class Rotations(Environment):
    """Words that are rotated to the left."""

    name, version = "rotations", "1"
    space = Space(
        strata=(stratum("short", 3, 5), stratum("long", 6, 9)),
        noun="length",
        task="rotates words",
        guideline="Longer words are harder.",
        categories=("unreadable", "wrong"),
    )

    def generate_one(self, stratum, knobs, rng):
        """One question; `knobs` has its numbers, `rng` is numpy's generator."""
        word = "".join(rng.permutation(list(ascii_lowercase))[: int(knobs["letters"])])
        by = int(rng.integers(1, 3))
        question = f"Rotate {word} to the left by {by}."
        return Instance(id=f"{word}-{by}", stratum=stratum, question=question, answer=word[by:] + word[:by])

    def judge_one(self, instance, answer):
        """The verdict on an answer, which is any text."""
        valid = answer.strip() == instance.answer
        return Verdict(valid=valid, category=None if valid else "wrong")
'''


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """The class, found as an installed package's is."""
    (tmp_path / "rotations.py").write_text(CODE)
    info = tmp_path / "rotations-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rotations\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[envwright.environments]\nrotations = rotations:Rotations\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return EnvironmentSpec(name="rotations").load()  # type: ignore[return-value]


def test_an_environment_of_a_package_draws_judges_and_stores(environment: Environment):
    for stratum in environment.space.strata:
        drawn = environment.generate(
            stratum.name, {"letters": stratum.knobs[0].high - 0.5}, 8, Source(0), frozenset()
        )
        assert len({one.id for one in drawn.instances}) == 8
        right = environment.judge(drawn.instances, [one.answer for one in drawn.instances])
        assert all(verdict.valid for verdict in right)
        assert not any(one.valid for one in environment.judge(drawn.instances, ["\0"] * 8))
        row = instance_row(environment, drawn.instances[0], "plain")
        assert instance_of(environment, row, "here") == drawn.instances[0]


def test_an_error_of_an_environment_says_what_was_drawn(environment: Environment):
    with pytest.raises(KeyError) as caught:
        environment.generate("short", {}, 1, Source(0), frozenset())
    assert not getattr(caught.value, "__notes__", [])
    type(environment).generate_one = lambda *_: 1 / 0  # type: ignore[method-assign, assignment]
    with pytest.raises(ZeroDivisionError) as failed:
        environment.generate("short", {"letters": 3}, 1, Source(0), frozenset())
    assert failed.value.__notes__ == ["generate_one of Rotations, stratum 'short', knobs {'letters': 3}"]


def test_an_environment_without_a_version_is_refused(environment: Environment, monkeypatch):
    monkeypatch.delattr(type(environment), "version")
    _load.cache_clear()
    with pytest.raises(
        ConfigError, match=r"environment.name: 'rotations' has no version; set it in its class"
    ):
        EnvironmentSpec(name="rotations").load()
