"""Rewards of a completion: fixed, and out of the engineer's reach."""

from collections.abc import Callable
from typing import Any

from pydantic import Field

from envgen.dataset import instance_of_row
from envgen.frozen import Frozen
from envgen.mapf.problem import Instance
from envgen.mapf.verifier import FailureCategory, Verdict, verify_batch


class RewardWeights(Frozen):
    """The reward is the weighted sum of terms from 0 to 1. Our choice: the paper publishes no formula."""

    format: float = Field(default=0.0, ge=0)
    """0 or 1: the answer can be parsed."""
    valid: float = Field(default=1.0, ge=0)
    """0 or 1: the plan is valid."""
    optimal: float = Field(default=0.5, ge=0)
    """0 or 1: the plan is valid and costs the optimum."""
    arrived: float = Field(default=0.0, ge=0)
    """Share of agents whose path ends on their goal. Alone it also pays for jumps onto the goals."""
    legal_share: float = Field(default=0.0, ge=0)
    """Share of the plan before its first violation. Alone it also pays for standing still."""


DEFAULT_WEIGHTS = RewardWeights()
LOGGED_TERMS = ("format", "valid", "optimal")
"""Terms that are computed whatever their weight, for the training log."""


def terms(verdict: Verdict) -> dict[str, float]:
    """Every term of the reward, 0 to 1, in the order of `RewardWeights`."""
    return {
        "format": float(verdict.category is not FailureCategory.PARSE_ERROR),
        "valid": float(verdict.valid),
        "optimal": float(verdict.optimal),
        "arrived": verdict.arrived,
        "legal_share": verdict.legal_share,
    }


def weighted_terms(weights: RewardWeights) -> dict[str, float]:
    """Term -> weight in the order of `reward_functions`: the logged ones, then weighted partial progress."""
    return {name: weight for name, weight in weights if weight or name in LOGGED_TERMS}


def reward_functions(weights: RewardWeights = DEFAULT_WEIGHTS) -> list[Callable[..., list[float | None]]]:
    """The terms as TRL reward functions, as in `weighted_terms`; they judge a batch once between them.

    Each takes `completions` (conversational) and the data set's `instance` column, a row of the data set
    schema. A crash of the verifier is an error, never a reward of 0.
    """
    batch = _LastBatch()

    def scored(name: str) -> Callable[..., list[float | None]]:
        def reward(completions: list[Any], instance: list[dict], **_: Any) -> list[float | None]:
            return [
                found[name]
                for found in batch.terms([_text(completion) for completion in completions], instance)
            ]

        reward.__name__ = name
        return reward

    return [scored(name) for name in weighted_terms(weights)]


class _LastBatch:
    """The terms of the last batch: TRL hands the same batch to one reward function after the other."""

    def __init__(self) -> None:
        self._batch: tuple[list[str], list[dict]] = [], []
        self._terms: list[dict[str, float]] = []

    def terms(self, texts: list[str], rows: list[dict]) -> list[dict[str, float]]:
        if (texts, rows) != self._batch:
            self._terms = [terms(verdict) for verdict in verify_batch(_instances(rows), texts)]
            self._batch = texts, list(rows)
        return self._terms


def _instances(rows: list[dict]) -> list[Instance]:
    """Completions of one prompt are neighbours: a row equal to the one before is not read again."""
    found: list[Instance] = []
    for index, row in enumerate(rows):
        found.append(found[-1] if index and row == rows[index - 1] else instance_of_row(row, "training row"))
    return found


def _text(completion: Any) -> str:
    return completion if isinstance(completion, str) else completion[-1]["content"]
