"""Log-probability check: the engine that evaluates must score fixed texts as the trainer did.

An engine with other weights (a failed merge, an old process) answers just as fluently. Imports without torch.
"""

from collections.abc import Callable

from envgen.frozen import Frozen

CANARY = "canary.json"
TEXTS = 8
"""Instances whose reference answers are scored."""
TOLERANCE = 0.2
"""Mean difference in nats a token above which a warning is logged. Rounding gives 1e-7 in float32 and about
0.003 in bfloat16 for a policy of a million weights."""
Scores = list[list[float]]


class Canary(Frozen):
    """Token sequences, and how the trained weights score the ends of them."""

    sequences: list[list[int]]
    scores: Scores
    """Log-probability of each answer token; the answer is at the end of its sequence."""


def difference(canary: Canary, score: Callable[[list[list[int]]], Scores]) -> float:
    """Return the mean absolute difference between an engine and the trainer, in nats a token.

    `score` maps sequences to the log-probability of each token after the first.
    """
    differences = [
        abs(ours - theirs)
        for row, known in zip(score(canary.sequences), canary.scores, strict=True)
        for ours, theirs in zip(row[-len(known) :], known, strict=True)
    ]
    return sum(differences) / len(differences)
