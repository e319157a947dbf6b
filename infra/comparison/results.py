"""`comparison_results.json`: what a comparison has shown so far. Page, terminal and MLflow show this and
compute nothing."""

from pathlib import Path
from typing import Literal

from envgen.estimates import Difference, Rate
from envgen.files import read_model
from envgen.frozen import Frozen
from infra.comparison.file import ComparisonFile, Registration
from infra.comparison.speed import Speed
from infra.results import Made

Figure = str
"""`valid`, `optimal`: rates on the test set after the last stage. `pass@8`: share of its instances with at
least one valid answer of 8. `hardest`: the valid rate there in the hardest quarter of the strata. `area`: the
mean valid rate on the test set over the generated tokens that all compared runs have. `validation`: the valid
rate on the validation set, which engineers and gate have seen."""
RESULTS_FILE = "comparison_results.json"


class ChildResult(Frozen):
    """One curriculum of a comparison."""

    arm: str
    seed: int
    state: Literal["finished", "waiting", "failed", "unreadable"]
    valid: float | None = None
    """Valid rate on the test set at its end, once it is finished."""
    reason: str = ""
    """Why it failed, or cannot be read."""

    @property
    def name(self) -> str:
        """Name of its run directory."""
        return f"{self.arm}-s{self.seed}"


class Pair(Frozen):
    """Differences of two arms, over the seeds that both finished, paired by seed and instance."""

    arm: str
    minus: str
    seeds: tuple[int, ...]
    differences: dict[Figure, Difference]
    adjusted: dict[Figure, float] = {}
    """p-values of the rates at the end by which an arm is called ahead or behind: adjusted by Holm's
    method for all such differences of the comparison, but the one that was named primary."""


class Spent(Frozen):
    """What a run of an arm has spent, mean over its seeds, with the stage 0 that runs share."""

    training_tokens: float
    training_seconds: float
    engineer_tokens: float | None
    """Of its questions and answers."""
    engineer_seconds: float

    @property
    def tokens(self) -> float:
        """Tokens of training and engineer; unknown ones count as 0."""
        return self.training_tokens + (self.engineer_tokens or 0)


class ArmResult(Frozen):
    """One arm over the seeds that finished."""

    label: str
    engineer: str
    seeds: tuple[int, ...] = ()
    """Seeds that finished; all figures are over them."""
    rates: dict[Figure, Rate] = {}
    strata: dict[str, Rate] = {}
    """Stratum -> valid rate on the test set at the end."""
    curve: tuple[Rate, ...] = ()
    """Valid rate on the test set: of the base policy, then of the policy in force after each stage."""
    tokens: tuple[float, ...] = ()
    """Generated training tokens up to each of these evaluations, mean over seeds."""
    configs: tuple[dict[str, dict[str, float]], ...] = ()
    """Stratum -> `data_ratio` and knobs, by stage, mean over seeds; of knobs, over the seeds with data."""
    designs_used: int = 0
    """Designs that the next stage was trained on."""
    designs_asked: int = 0
    """Designs that the engineers were asked for between stages."""
    undone: int = 0
    """Stages that the gate undid."""
    no_signal: float | None = None
    """Share of the groups of training without signal, mean over stages and seeds."""
    spent: Spent | None = None
    speed: Speed | None = None
    """How soon it gets where the first baseline ends, over the seeds that both finished."""


class ComparisonResults(Frozen):
    """All that a comparison has shown so far."""

    file: ComparisonFile
    preset: str
    """Name of the preset."""
    stages: int
    instances: int
    """Of the test set."""
    best: str | None
    """The environment's word for optimal answers; None if all valid ones are equal."""
    strata: dict[str, str]
    """Stratum -> its name in words, the easiest for the base policy first."""
    hardest: tuple[str, ...] = ()
    """The hardest quarter of them."""
    registrations: tuple[Registration, ...] = ()
    arms: tuple[ArmResult, ...]
    children: tuple[ChildResult, ...]
    pairs: tuple[Pair, ...] = ()
    """Every arm with each baseline, then every two arms that are none, each pair once."""
    made: Made = Made()
    """All finished curricula together; a stage 0 that some share is counted in each."""

    def differences(self, figure: Figure) -> dict[str, dict[str, Difference]]:
        """Baseline -> arm -> difference in a figure; baselines without an arm are left out."""
        pairs = [pair for pair in self.pairs if figure in pair.differences]
        effects = {
            base: {pair.arm: pair.differences[figure] for pair in pairs if pair.minus == base}
            for base in self.file.baseline_arms
        }
        return {base: of_base for base, of_base in effects.items() if of_base}

    @property
    def troubled(self) -> tuple[ChildResult, ...]:
        """The curricula that failed or cannot be read."""
        return tuple(child for child in self.children if child.reason)


def read_comparison_results(directory: Path) -> ComparisonResults:
    """`comparison_results.json` of a comparison; RunDirectoryError if nothing has finished."""
    missing = f"{directory}: {RESULTS_FILE} is missing; nothing has finished yet, or this is no comparison"
    remedy = "run the same command again to rewrite it"
    return read_model(directory / RESULTS_FILE, ComparisonResults, missing, remedy)
