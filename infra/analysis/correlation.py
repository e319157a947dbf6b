"""Do scores order the gains of stages? Rank correlations of pilots' scores, or of knobs, with the gain."""

from collections.abc import Sequence

import numpy as np
from pydantic import Field
from scipy.stats import rankdata

from envgen.frozen import Frozen
from infra.runs.results import CurriculumResults, StageResult

PILOT_SCORES = {
    "advantage": "the mean |advantage|",
    "mixed": "the share of groups with mixed rewards",
    "learnability": "the mean p (1 - p)",
    "grounded": "the change after a few optimizer steps",
}
"""Score of a pilot -> what it is."""
RESAMPLES = 4_999


class ScoredStage(Frozen):
    """One stage: scores of its config, and what the stage then gained."""

    run: str
    stage: int = Field(ge=1)
    scores: dict[str, float]
    gain: float
    """Valid rate after the stage minus that of the policy it started from, -1 to 1."""


class RankCorrelation(Frozen):
    """Spearman's rho between a score and the gain, with its 95 % bootstrap interval over runs."""

    score: str
    value: float
    low: float
    high: float
    stages: int
    runs: int


def scored(run: str, stage: StageResult, scores: dict[str, float]) -> ScoredStage:
    """A stage with scores of the config that it trained on."""
    return ScoredStage(run=run, stage=stage.stage, scores=scores, gain=stage.behaviour.valid_change.value)


def piloted_stages(run: str, results: CurriculumResults) -> list[ScoredStage]:
    """The stages of a run whose config was piloted, with the pilot's scores; the config of stage 0 is not."""
    found = []
    for before, after in zip(results.stages, results.stages[1:], strict=False):
        scores = [
            piloted.score for piloted in before.pilots if piloted.config == after.config and piloted.score
        ]
        if scores:
            found.append(scored(run, after, scores[0].scores))
    return found


def rank_correlations(stages: Sequence[ScoredStage]) -> tuple[RankCorrelation, ...]:
    """Spearman's rho (Spearman 1904, mean ranks for ties) of each score with the gain.

    The interval resamples whole runs, since the stages of a run depend on each other; with few runs it is
    coarse. Empty with fewer than three runs, or if a score or the gain is the same everywhere. The stages
    differ in more than their configs: early stages gain more than late ones, so that a correlation over all
    of them is no proof that choosing by the score helps.
    """
    runs = sorted({one.run for one in stages})
    if len(runs) < 3:
        return ()
    members = [[index for index, one in enumerate(stages) if one.run == run] for run in runs]
    gain = np.array([one.gain for one in stages])
    rng = np.random.default_rng(0)
    draws = [rng.integers(0, len(runs), len(runs)) for _ in range(RESAMPLES)]
    samples = _of_one_length([np.concatenate([members[run] for run in draw]) for draw in draws])
    found = []
    for score in (name for name in stages[0].scores if all(name in one.scores for one in stages)):
        values = np.array([one.scores[score] for one in stages])
        value = float(spearman(values, gain))
        drawn = np.concatenate([spearman(values[rows], gain[rows]) for rows in samples])
        if not np.isnan(value):
            low, high = map(float, np.nanpercentile(drawn, [2.5, 97.5]))
            shown = {"stages": len(stages), "runs": len(runs)}
            found.append(RankCorrelation(score=score, value=value, low=low, high=high, **shown))
    return tuple(found)


def spearman(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Spearman's rho of two arrays of shape (..., n), ties at their mean rank; shape (...), NaN where one
    side is constant."""
    ranks = [rankdata(values, axis=-1) for values in (first, second)]
    one, other = (rank - rank.mean(axis=-1, keepdims=True) for rank in ranks)
    scale = np.sqrt((one**2).sum(axis=-1) * (other**2).sum(axis=-1))
    return np.divide((one * other).sum(axis=-1), scale, out=np.full(scale.shape, np.nan), where=scale > 0)


def _of_one_length(samples: list[np.ndarray]) -> list[np.ndarray]:
    """Samples of indices as matrices, one for each length that occurs: runs differ in their stages."""
    by_length: dict[int, list[np.ndarray]] = {}
    for sample in samples:
        by_length.setdefault(len(sample), []).append(sample)
    return [np.stack(rows) for rows in by_length.values()]
