"""Stale-weights canary: the trainer and the engine must give the same probabilities to the same fixed texts.

An engine that answers with other weights than those just trained (a failed synchronisation, a merge gone
wrong, an old process) answers just as fluently. Imports without torch.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from envgen.errors import ModelError
from envgen.frozen import Frozen

CANARY = "canary.json"
TEXTS = 8
"""Instances whose best answers are scored."""
ROUNDING = {"float32": 0.002, "bfloat16": 0.05}
"""Nats a token, on average, below which a difference may be the arithmetic of a data type: assumed, ten times
and more what a policy of a million weights showed (1e-7 in float32, 0.003 in bfloat16)."""
GROSS = 0.5
"""Nats a token that no arithmetic explains."""
Scores = list[list[float]]
Score = Callable[[list[list[int]]], Scores]
"""Token sequences -> for each the log-probability of every token after the first, given those before it."""


class Canary(Frozen):
    """Token sequences and what the trainer's weights say of them."""

    sequences: list[list[int]]
    answers: list[int]
    """Tokens at the end of each sequence that are scored."""
    dtype: Literal["float32", "bfloat16"]
    """What the trainer computes with."""
    before: Scores | None
    """Log-probabilities of these tokens under the weights before training; None if a crash lost them."""
    after: Scores
    """The same under the trained weights."""


class WeightsCheck(Frozen):
    """What the canary said of an engine, in nats a token."""

    off: float
    """Mean absolute difference between engine and trainer."""
    moved: float | None
    """Mean absolute difference that training made; None if unknown."""
    rounding: float
    """What arithmetic may explain."""
    verdict: Literal["same", "other", "too small a change to tell", "unknown what changed"]

    def __str__(self) -> str:
        change = "" if self.moved is None else f", training changed {self.moved:.2g}"
        return f"{self.verdict}; log-probabilities are off by {self.off:.2g} nats a token{change}"


def ends(scores: Scores, answers: Sequence[int]) -> Scores:
    """The scores of the last tokens of each sequence."""
    return [row[-count:] for row, count in zip(scores, answers, strict=True)]


def check_weights(canary: Canary, score: Score, dtype: str) -> WeightsCheck:
    """Compare an engine with the trained weights.

    It has others if training moved the scores by more than arithmetic can and the engine is not nearer to
    where they went than halfway, or if it is off by `GROSS`. `dtype` is the engine's; of its arithmetic and
    the trainer's the coarser counts.
    """
    off = distance(ends(score(canary.sequences), canary.answers), canary.after)
    moved = None if canary.before is None else distance(canary.before, canary.after)
    rounding = ROUNDING["float32" if dtype == canary.dtype == "float32" else "bfloat16"]
    if off > GROSS:
        verdict = "other"
    elif moved is None:
        verdict = "unknown what changed"
    elif moved < rounding:
        verdict = "too small a change to tell"
    else:
        verdict = "other" if off > moved / 2 else "same"
    return WeightsCheck(off=off, moved=moved, rounding=rounding, verdict=verdict)


def refuse_stale(check: WeightsCheck, source: Path | str) -> None:
    """ModelError if the engine answers with other weights."""
    if check.verdict == "other":
        change = "" if check.moved is None else f", where training changed them by {check.moved:.3g}"
        raise ModelError(
            f"{source}: the engine does not answer with the trained weights: its log-probabilities of the "
            f"canary's tokens are off by {check.off:.3g} nats a token{change}; run the same command again "
            "for a new engine. If that stays, compare engine.dtype with training.dtype, or go on with "
            "--set training.canary=warn"
        )


def distance(one: Scores, other: Scores) -> float:
    """Mean absolute difference over all tokens."""
    differences = [
        abs(a - b) for row, there in zip(one, other, strict=True) for a, b in zip(row, there, strict=True)
    ]
    return sum(differences) / len(differences)
