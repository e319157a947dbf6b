"""Worlds of the bench: traps that engineers meet in practice, each drawn at random from a seed."""

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from envgen.breakdown import Breakdown, Counts, Labelled
from envgen.config import SHARE, EnvConfig
from envgen.seeds import generator
from envgen.space import Knob, Label, Space, Stratum
from policy.learner import READABLE, Learner, spread

NOTHING = "nothing to gain"
"""The trap in which equal shares are best: engineers can only lose."""
TRICK_RATIO = "trick_ratio"
UNREADABLE, WRONG = "unreadable", "wrong"
_KNOB = Knob(
    name=TRICK_RATIO,
    step=0.25,
    default=0.5,
    description="the share of the puzzles with a trick",
    label=Label(name="trick", condition="a puzzle has a trick"),
)
STEPS, PROMPTS = 12, 32
"""Steps of a stage, and prompts of a step."""
KINDS = np.array([[0.0], [1.0]])
"""Kinds of instances: without and with a trick."""


class World(Learner, arbitrary_types_allowed=True):
    """Draw of a trap: a learner, what it can do at first, and how it is validated."""

    speed: tuple[float, float, float] = (1.0, 1.0, 8.0)
    """A format is one habit for all instances of a stratum, and quick to learn."""
    transfer: float = 0.15
    forgetting: float = 0.06
    skills: np.ndarray
    """Skills of the base policy, see `policy.learner`; shape (S, 3)."""
    rest: np.ndarray | None = None
    """Skills (S, 3) that a stratum falls back to where it is not trained; None: nothing is forgotten."""
    answers: int = 40
    """Validation answers of each stratum; half of them to instances with a trick."""

    def score(self, skills: np.ndarray) -> np.ndarray:
        """Return the mean valid rate over strata; half of the instances have a trick; shape (...)."""
        return self.valid(skills, KINDS).mean(axis=(-2, -1))

    def stage(
        self, skills: np.ndarray, shares: np.ndarray, tricks: np.ndarray, rng: np.random.Generator | None
    ) -> np.ndarray:
        """Return the skills after a stage on shares (..., S) of the data, each with a part (..., S) of
        tricks; `rng` None: without noise."""
        data = shares[..., None] * np.stack([1 - tricks, tricks], axis=-1)
        unseen = (1 - shares) ** PROMPTS
        for _ in range(STEPS):
            signal = data * spread(self.valid(skills, KINDS))
            skills = self.moved(skills, KINDS, signal, unseen, skills if self.rest is None else self.rest)
        return skills if rng is None else skills + rng.normal(0, self.noise, skills.shape[-2:])

    def breakdown(self, skills: np.ndarray, rng: np.random.Generator) -> Breakdown:
        """Return the breakdown of an evaluation; the first half of the instances of a level has a trick."""
        drawn = rng.random((2, len(skills), self.answers))
        with_trick = np.arange(self.answers) < self.answers // 2
        right = drawn[0] < self.right(skills, KINDS)[:, with_trick.astype(int)]
        readable = drawn[1] < expit(skills[:, READABLE, None])
        strata = {}
        for level, (solved, read) in enumerate(zip(right, readable, strict=True), start=1):
            valid = solved & read
            tricks = Labelled(n=int(with_trick.sum()), valid=int(valid[with_trick].sum()))
            failures = {UNREADABLE: int((~read).sum()), WRONG: int((read & ~solved).sum())}
            fields = {"n": self.answers, "valid": int(valid.sum()), "optimal": 0, "failures": failures}
            strata[str(level)] = Counts(**fields, labels={"trick": tricks})
        return Breakdown(strata=strata)


def space_of(world: World) -> Space:
    """Return the config space of a world: levels with one knob, in words that do not betray the trap."""
    levels = range(1, len(world.skills) + 1)
    return Space(
        strata=tuple(Stratum(name=str(level), label=f"level {level}", knobs=(_KNOB,)) for level in levels),
        key="levels",
        noun="level",
        task="solves puzzles",
        guideline="Ask for more of the levels that are within reach, for less of what is solved or too hard.",
        categories=(UNREADABLE, WRONG),
    )


def default_config(space: Space) -> EnvConfig:
    """Return the config of stage 0: equal shares, half of the puzzles with a trick."""
    part = {SHARE: 1 / len(space.strata), TRICK_RATIO: _KNOB.default}
    return EnvConfig.model_validate({space.key: dict.fromkeys(space.names, part)})


def draw_world(trap: str, draw: int) -> World:
    """Return a draw of a trap, the same for the same arguments."""
    return TRAPS[trap](generator(draw, trap))


def _skills(rng: np.random.Generator, plain: np.ndarray) -> np.ndarray:
    """Return first skills (S, 3): tricks make an answer less likely, nearly all answers are readable."""
    return np.stack([plain, rng.uniform(-1.2, -0.4, len(plain)), np.full(len(plain), 4.0)], axis=-1)


def _mixed(rng: np.random.Generator) -> np.ndarray:
    """Return logits of the levels of an ordinary task, from the easiest to the hardest, not all in order."""
    count = int(rng.integers(4, 7))
    return np.linspace(rng.uniform(0.5, 2), rng.uniform(-3.5, -2), count) + rng.normal(0, 0.4, count)


def _dead_strata(rng: np.random.Generator) -> World:
    """Two or three levels are out of reach for good."""
    plain = np.concatenate([rng.uniform(-2, 1, rng.integers(2, 4)), np.full(rng.integers(2, 4), -12.0)])
    return World(skills=_skills(rng, plain), rate=rng.uniform(2, 5) / STEPS, transfer=0.1)


def _saturated_strata(rng: np.random.Generator) -> World:
    """Two or three levels are solved before training begins."""
    plain = [rng.uniform(4, 6, rng.integers(2, 4)), rng.uniform(-3, 0, rng.integers(2, 4))]
    return World(skills=_skills(rng, np.concatenate(plain)), rate=rng.uniform(2, 5) / STEPS)


def _format_failure(rng: np.random.Generator) -> World:
    """The policy can solve a level, but hardly an answer to it can be read."""
    skills = _skills(rng, _mixed(rng))
    broken = rng.integers(len(skills))
    skills[broken] = (rng.uniform(1, 2.5), -0.5, rng.uniform(-4.2, -3.2))
    return World(skills=skills, rate=rng.uniform(2, 5) / STEPS, transfer=0.05)


def _forgetting(rng: np.random.Generator) -> World:
    """Levels that are solved at first decay where they are not rehearsed."""
    solved = rng.integers(2, 4)
    plain = np.concatenate([rng.uniform(3.5, 5, solved), rng.uniform(-2, 0.5, rng.integers(2, 4))])
    skills = _skills(rng, plain)
    rest = skills.copy()
    rest[:solved, 0] = -2.0
    return World(skills=skills, rate=rng.uniform(2, 5) / STEPS, rest=rest)


def _harmful_knob(rng: np.random.Generator) -> World:
    """Puzzles with a trick are wrong ones: training on them spoils the others."""
    return World(skills=_skills(rng, _mixed(rng)), rate=rng.uniform(2, 5) / STEPS, harm=rng.uniform(0.6, 1.2))


def _lucky_sample(rng: np.random.Generator) -> World:
    """Levels are within reach, and rates come from six answers each: 0 and 100 % are often chance."""
    skills = _skills(rng, rng.uniform(-2, 2, rng.integers(4, 7)))
    return World(skills=skills, rate=rng.uniform(2, 5) / STEPS, answers=6)


def _ladder(rng: np.random.Generator) -> World:
    """A level can be learned only after the one before."""
    count = rng.integers(4, 6)
    plain = rng.uniform(-0.5, 1) - rng.uniform(0.5, 1) * np.arange(count)
    return World(skills=_skills(rng, plain), rate=(rng.uniform(2, 5) + 2) / STEPS, transfer=0.0, ladder=True)


def _nothing_to_gain(rng: np.random.Generator) -> World:
    """All levels are alike, so that equal shares are best."""
    count = int(rng.integers(4, 7))
    skills = np.tile([rng.uniform(-1.5, 2.5), 0.0, 4.0], (count, 1))
    return World(skills=skills, rate=rng.uniform(2, 5) / STEPS, speed=(1.0, 0.0, 8.0))


TRAPS: dict[str, Callable[[np.random.Generator], World]] = {
    draw.__name__[1:].replace("_", " "): draw
    for draw in (
        *(_dead_strata, _saturated_strata, _format_failure, _forgetting),
        *(_harmful_knob, _lucky_sample, _ladder, _nothing_to_gain),
    )
}
"""Trap -> draw of a world; the docstring says what goes wrong."""
