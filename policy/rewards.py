"""Rewards of a completion: fixed, and out of the engineer's reach."""

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from envgen.dataset import instance_of_row
from envgen.verifier import FailureCategory, Verdict, verify


class RewardWeights(BaseModel):
    """The reward is the weighted sum of three 0/1 terms. Our choice: the paper publishes no formula."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: float = Field(default=0.0, ge=0)
    """The answer can be parsed."""
    valid: float = Field(default=1.0, ge=0)
    """The plan is valid."""
    optimal: float = Field(default=0.5, ge=0)
    """The plan is valid and costs the optimum."""


def terms(verdict: Verdict) -> tuple[float, float, float]:
    """(format, valid, optimal) of a verdict, each 0 or 1."""
    return float(verdict.category is not FailureCategory.PARSE_ERROR), float(verdict.valid), float(verdict.optimal)


def reward_functions() -> list[Callable[..., list[float | None]]]:
    """The three terms as TRL reward functions, in the order of `RewardWeights`.

    Each takes `completions` (conversational) and the data set's `instance` column, a row of the data set schema. A
    crash of the verifier is an error, never a reward of 0.
    """

    def scored(index: int, name: str) -> Callable[..., list[float | None]]:
        def reward(completions: list[Any], instance: list[dict], **_: Any) -> list[float | None]:
            return [terms(_verdict(c, row))[index] for c, row in zip(completions, instance, strict=True)]

        reward.__name__ = name
        return reward

    return [scored(index, name) for index, name in enumerate(RewardWeights.model_fields)]


def _verdict(completion: Any, row: dict) -> Verdict:
    text = completion if isinstance(completion, str) else completion[-1]["content"]
    return verify(instance_of_row(row, "training row"), text)
