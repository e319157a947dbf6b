"""Share of each stratum that a policy solves, before and after a warm start."""

from collections.abc import Iterable
from pathlib import Path

from envgen.breakdown import Rate, wilson
from envgen.frozen import Frozen
from envgen.space import Space
from policy.rollouts import Rollout

Rates = dict[str, dict[str, Rate]]
"""Lesson -> stratum -> valid rate of greedy answers."""
RATES = "rates.json"
"""Beside the weights of a policy that was warm-started: `Taught`."""


class Taught(Frozen):
    """How a policy was warm-started, with its valid rates on instances that it was not taught."""

    model: str | None
    """The chat model that it was; None: its weights were random."""
    steps: int
    before: Rates
    """Empty for random weights."""
    after: Rates


def rates_path(work: Path, step: int) -> Path:
    """Return the path of the rates of a checkpoint, beside it."""
    return work / f"rates-{step:06d}.json"


def rates_of(space: Space, rollouts: Iterable[Rollout]) -> dict[str, Rate]:
    """Return the valid rate of each stratum."""
    outcomes: dict[str, list[bool]] = {}
    for rollout in rollouts:
        outcomes.setdefault(space.label(rollout.instance.stratum), []).append(rollout.verdict.valid)
    return {stratum: wilson(sum(valid), len(valid)) for stratum, valid in outcomes.items()}
