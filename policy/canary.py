"""Stale-weights canary: the trainer and the engine must give the same probabilities to the same fixed texts.

An engine that answers with other weights than those just trained (a failed synchronisation, a merge gone wrong, an old
process) answers just as fluently. Imports without torch.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from envgen.errors import ModelError
from envgen.problem import Instance
from envgen.prompts import PromptStyle, answer, prompt
from policy.chat import Message

CANARY = "canary.json"
TEXTS = 8
"""Boards whose optimal answers are scored."""
TOLERANCE = {"float32": 0.01, "bfloat16": 0.1, "float16": 0.1}
"""Mean absolute difference of log-probabilities, in nats a token, that the arithmetic of an engine may make."""
LARGEST_ERROR = 0.2
"""Standard error up to which the share of training's change that an engine shows means anything."""
Scores = list[list[float]]
Score = Callable[[list[list[int]]], Scores]
"""Token sequences -> for each the log-probability of every token after the first, given those before it."""


class Canary(BaseModel):
    """Token sequences and what the trainer's weights say of them."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    sequences: list[list[int]]
    answers: list[int]
    """Tokens at the end of each sequence that are scored."""
    before: Scores | None
    """Log-probabilities of these tokens under the weights that training started from; None where those cannot be asked alone (ZeRO-3)."""
    after: Scores
    """The same under the trained weights."""


class WeightsCheck(BaseModel):
    """What the canary said of an engine."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    off: float
    """Mean absolute difference between engine and trainer, in nats a token."""
    tolerance: float
    """The largest that arithmetic explains."""
    moved: float | None
    """Mean absolute difference that training made; None if unknown."""
    followed: float | None
    """Share of that change which the engine shows, least squares over the tokens: 1 with the trained weights, 0 with those before."""
    error: float | None
    """Standard error of `followed`."""
    verdict: Literal["same", "too small a change to tell", "other"]

    def __str__(self) -> str:
        change = "" if self.moved is None else f", training changed {self.moved:.2g}"
        return f"{self.verdict}; log-probabilities are off by {self.off:.2g} nats a token{change}"


def canary_conversations(instances: Sequence[Instance], style: PromptStyle) -> list[tuple[Message, Message]]:
    """Question and optimal answer of the first boards of a data set."""
    asked = [(prompt(i.problem, style), answer(i.solution.plan)) for i in instances[:TEXTS]]
    return [(Message(role="user", content=question), Message(role="assistant", content=text)) for question, text in asked]


def ends(scores: Scores, answers: Sequence[int]) -> Scores:
    """The scores of the last tokens of each sequence."""
    return [row[-count:] for row, count in zip(scores, answers, strict=True)]


def check_weights(canary: Canary, score: Score, dtype: str) -> WeightsCheck:
    """Compare an engine with the trained weights. It has others if it is off by more than arithmetic explains, or does not show what training changed."""
    engine = ends(score(canary.sequences), canary.answers)
    off, tolerance = distance(engine, canary.after), TOLERANCE.get(dtype, TOLERANCE["bfloat16"])
    moved = None if canary.before is None else distance(canary.before, canary.after)
    followed, error = _followed(canary.before, canary.after, engine) if canary.before and moved else (None, None)
    told = followed if error is not None and error < LARGEST_ERROR else None
    other = off > tolerance or (told is not None and told < 0.5)
    verdict = "other" if other else "too small a change to tell" if told is None else "same"
    return WeightsCheck(off=off, tolerance=tolerance, moved=moved, followed=followed, error=error, verdict=verdict)


def refuse_stale(check: WeightsCheck, source: Path | str) -> None:
    """ModelError if the engine answers with other weights."""
    if check.verdict == "other":
        shown = "" if check.followed is None else f", and shows {100 * check.followed:.0f} % of what training changed"
        raise ModelError(
            f"{source}: the engine does not answer with the trained weights: its log-probabilities of the canary's tokens are off by {check.off:.3g} nats "
            f"a token, where arithmetic explains {check.tolerance:g}{shown}; run the same command again for a new engine, and if it stays, "
            f"compare engine.dtype with training.dtype"
        )


def _followed(before: Scores, after: Scores, engine: Scores) -> tuple[float, float]:
    """Least-squares slope of (engine - before) on (after - before), and its standard error."""
    pairs = [(a - b, e - b) for rows in zip(before, after, engine, strict=True) for b, a, e in zip(*rows, strict=True)]
    total = sum(x * x for x, _ in pairs)
    slope = sum(x * y for x, y in pairs) / total
    rest = sum((y - slope * x) ** 2 for x, y in pairs)
    return slope, math.sqrt(rest / max(len(pairs) - 1, 1) / total)


def distance(one: Scores, other: Scores) -> float:
    """Mean absolute difference over all tokens."""
    differences = [abs(a - b) for row, there in zip(one, other, strict=True) for a, b in zip(row, there, strict=True)]
    return sum(differences) / len(differences)
