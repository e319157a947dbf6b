"""Does the pilot's score predict the gain of the stage that follows? A rank correlation over the stages of a comparison."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from pydantic import Field
from scipy.stats import spearmanr

from envgen.frozen import Frozen
from infra.runs.results import CurriculumResults

SCORES = ("advantage", "mixed")
RESAMPLES = 4_999


class PilotPair(Frozen):
    """One stage: what the pilot said of its config, and what the stage then gained."""

    run: str
    stage: int = Field(ge=1)
    advantage: float
    """Mean absolute advantage in the pilot."""
    mixed: float
    """Share of groups with mixed rewards in the pilot."""
    gain: float
    """Valid rate after the stage minus that of the policy it started from, -1 to 1."""


class RankCorrelation(Frozen):
    """Spearman's rho between a pilot score and the gain, with its 95 % bootstrap interval over runs."""

    score: str
    value: float
    low: float
    high: float
    stages: int
    runs: int


def pilot_pairs(run: str, results: CurriculumResults) -> list[PilotPair]:
    """The stages of a run whose config was piloted; the config of stage 0 is not."""
    found = []
    for before, after in zip(results.stages, results.stages[1:], strict=False):
        scores = [piloted.score for piloted in before.pilots if piloted.config == after.config and piloted.score]
        if scores:
            gain = after.behaviour.valid_change.value
            found.append(PilotPair(run=run, stage=after.stage, advantage=scores[0].advantage.value, mixed=scores[0].mixed.value, gain=gain))
    return found


class Pair(Protocol):
    """A stage of a run, with its gain and with scores under their names."""

    @property
    def run(self) -> str:
        """Whose stage it is."""
        ...

    @property
    def gain(self) -> float:
        """-1 to 1."""
        ...


def rank_correlations(pairs: Sequence[Pair], scores: Sequence[str] = SCORES) -> tuple[RankCorrelation, ...]:
    """Spearman's rho (Spearman 1904, mean ranks for ties) of each score, an attribute of the pairs, with the gain.

    The interval resamples whole runs, since the stages of a run depend on each other; with few runs it is coarse. Empty with fewer
    than three runs, or if a score or the gain is the same everywhere. The stages differ in more than their configs: early stages
    gain more than late ones, so that a correlation over all of them is no proof that choosing by the pilot helps.
    """
    runs = sorted({pair.run for pair in pairs})
    if len(runs) < 3:
        return ()
    members = [[index for index, pair in enumerate(pairs) if pair.run == run] for run in runs]
    gain = np.array([pair.gain for pair in pairs])
    rng = np.random.default_rng(0)
    samples = [np.concatenate([members[run] for run in rng.integers(0, len(runs), len(runs))]) for _ in range(RESAMPLES)]
    found = []
    for score in scores:
        values = np.array([getattr(pair, score) for pair in pairs])
        value = spearman(values, gain)
        drawn = [rho for sample in samples if (rho := spearman(values[sample], gain[sample])) is not None]
        if value is not None and drawn:
            low, high = np.percentile(drawn, [2.5, 97.5])
            found.append(RankCorrelation(score=score, value=value, low=float(low), high=float(high), stages=len(pairs), runs=len(runs)))
    return tuple(found)


def spearman(first: np.ndarray, second: np.ndarray) -> float | None:
    """Spearman's rho of two arrays of shape (n,), -1 to 1, ties at their mean rank; None if one side is constant."""
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(spearmanr(first, second).statistic)  # pyright: ignore[reportAttributeAccessIssue]  # missing in its stub
