"""`comparison_results.json`: what a comparison has shown so far, for programs."""

from pathlib import Path
from typing import Literal

from envgen.breakdown import Rate
from envgen.files import read_model
from envgen.frozen import Frozen
from infra.analysis.spec import Stage0
from infra.analysis.statistics import Effect
from infra.results import Made

RateName = Literal["valid", "optimal"]
RATES: tuple[RateName, ...] = ("valid", "optimal")
RESULTS_FILE = "comparison_results.json"
BASELINES = ("random", "fixed")
"""Arms that the others are measured against, where they are part of the comparison."""


class ChildResult(Frozen):
    """One curriculum of a comparison."""

    arm: str
    seed: int
    valid: float | None = None
    """Valid rate at its end; None if stages are left."""
    reason: str = ""
    """Why it failed: the message and the last lines of its output; empty if it did not."""

    @property
    def name(self) -> str:
        """Name of its run directory."""
        return f"{self.arm}-s{self.seed}"


class Pair(Frozen):
    """The differences between two arms at the end, over the seeds that both have, paired by seed and
    instance."""

    arm: str
    minus: str
    valid: Effect
    optimal: Effect


class ArmResult(Frozen):
    """One arm over the seeds that finished."""

    label: str
    seeds: tuple[int, ...]
    """Seeds that finished; all figures are over them."""
    valid: Rate | None = None
    """At the end, under the policy that is then in force."""
    optimal: Rate | None = None
    valid_curve: tuple[Rate, ...] = ()
    """On the validation set: of the base policy, then after each stage."""
    optimal_curve: tuple[Rate, ...] = ()
    tokens: float | None = None
    """Tokens of a run, mean over seeds, with the stage 0 that runs share."""
    seconds: float | None = None
    """Seconds of a run's steps, likewise."""


class ComparisonResults(Frozen):
    """All that a comparison has shown so far."""

    comparison: str
    preset: str
    stages: int
    instances: int
    """Of the validation set."""
    best: str | None
    """The environment's word for optimal answers; None if all valid ones are equal."""
    seeds: tuple[int, ...]
    stage_0: Stage0
    stage0_seed: int
    """Of the stage 0 that all share, if they do."""
    arms: tuple[ArmResult, ...]
    children: tuple[ChildResult, ...]
    pairs: tuple[Pair, ...] = ()
    """Every arm minus each baseline, then every two arms that are none, once, in their order."""
    made: Made = Made()
    """All finished curricula together; a stage 0 that some share is counted in each."""

    def differences(self, rate: RateName) -> dict[str, dict[str, Effect]]:
        """Baseline -> arm -> difference in a rate at the end; baselines without an arm are left out."""
        effects = {
            base: {pair.arm: getattr(pair, rate) for pair in self.pairs if pair.minus == base}
            for base in BASELINES
        }
        return {base: of_base for base, of_base in effects.items() if of_base}

    @property
    def failed(self) -> tuple[ChildResult, ...]:
        """The curricula that ended with an error."""
        return tuple(child for child in self.children if child.reason)


def read_comparison_results(directory: Path) -> ComparisonResults:
    """`comparison_results.json` of a comparison; RunDirectoryError if nothing has finished."""
    missing = f"{directory}: {RESULTS_FILE} is missing; nothing has finished yet, or this is no comparison"
    return read_model(
        directory / RESULTS_FILE, ComparisonResults, missing, "run the same command again to rewrite it"
    )
