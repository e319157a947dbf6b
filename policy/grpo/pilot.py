"""Pilot: what a config would teach the policy, from a few groups of its answers, ahead of training."""

from collections.abc import Sequence
from typing import Literal, TypeVar

import numpy as np
from pydantic import Field

from envgen.breakdown import Difference, Rate, wilson
from envgen.config import EnvConfig
from envgen.family import Instance, TaskFamily
from envgen.frozen import Frozen
from policy.chat.contract import ChatModel, Progress, Sampling, ask
from policy.grpo.rewards import RewardWeights, terms

_SCALE_FLOOR = 1e-4
"""Added to a group's standard deviation before it divides, as TRL's GRPO does."""
T = TypeVar("T")


class Mean(Frozen):
    """A mean over groups with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float


class Grounded(Frozen):
    """What a few optimizer steps on a config changed (SOAR, arXiv 2601.18778)."""

    steps: int = Field(ge=1)
    instances: int = Field(ge=1)
    """Of the validation set, on which the change is measured."""
    valid: Difference
    """Change of the valid rate, paired over them."""
    completion_tokens: int
    """Of training and evaluation."""


class PilotScore(Frozen):
    """The learning signal to be expected of a config."""

    groups: int = Field(ge=1)
    """Instances, each answered by a group."""
    group_size: int = Field(ge=2)
    """Answers to each instance."""
    mixed: Rate
    """Share of groups whose rewards are not all equal: only these teach a group-relative method anything."""
    advantage: Mean
    """Mean absolute advantage of an answer, scaled as in training; about 0 to 1 where that is by the group's
    standard deviation."""
    learnability: Mean | None = None
    """Mean of p (1 - p) over the groups, 0 to 0.25, p being the rate that a group's instance is solved at
    (SFL, arXiv 2408.15099); none of a pilot of earlier releases."""
    valid: Mean
    """Share of valid answers."""
    prompt_tokens: int
    completion_tokens: int
    grounded: Grounded | None = None
    """None if it was not asked for, or failed."""

    @property
    def scores(self) -> dict[str, float]:
        """Kind of score -> its value, of all that were computed."""
        found = {"advantage": self.advantage.value, "mixed": self.mixed.value}
        if self.learnability:
            found["learnability"] = self.learnability.value
        if self.grounded:
            found["grounded"] = self.grounded.valid.value
        return found


class Piloted(Frozen):
    """One config and its score."""

    config: EnvConfig
    score: PilotScore | None
    error: str | None = None
    """Why there is no score, or no grounded one."""

    def value(self, kind: Literal["advantage", "learnability", "grounded"]) -> float:
        """The score of a kind; minus infinity if there is none."""
        return self.score.scores.get(kind, float("-inf")) if self.score else float("-inf")


class Pilots(Frozen):
    """The scores of all different configs that were proposed after a stage; none if the pilot is off."""

    pilots: tuple[Piloted, ...]


def pilot(
    model: ChatModel,
    family: TaskFamily,
    instances: Sequence[Instance],
    group_size: int,
    style: str,
    sampling: Sampling,
    rewards: RewardWeights,
    scale: str = "group",
    progress: Progress | None = None,
) -> PilotScore:
    """Answer each instance `group_size` times and score the rewards.

    `scale` is that of `absolute_advantages`. Raises ModelError.
    """
    repeated = [instance for instance in instances for _ in range(group_size)]
    questions = [ask(family.prompt(instance, style)) for instance in repeated]
    completions = model.complete(questions, sampling, progress)
    verdicts = family.judge(repeated, [completion.text for completion in completions])
    earned = [terms(family, verdict) for verdict in verdicts]
    weights = rewards.weights.items()
    values = [sum(weight * one[name] for name, weight in weights) for one in earned]
    grouped = np.array(values).reshape(len(instances), group_size)
    valid = np.array([verdict.valid for verdict in verdicts], dtype=float).reshape(grouped.shape)
    return PilotScore(
        groups=len(instances),
        group_size=group_size,
        mixed=wilson(int(mixed_groups(grouped).sum()), len(instances)),
        advantage=_bootstrapped(absolute_advantages(grouped, scale)),
        learnability=_bootstrapped(learnability(valid)),
        valid=_bootstrapped(valid.mean(axis=1)),
        prompt_tokens=sum(completion.prompt_tokens for completion in completions),
        completion_tokens=sum(completion.completion_tokens for completion in completions),
    )


def spread(items: Sequence[T], count: int) -> list[T]:
    """At most `count` of the items, evenly from all of them, in their order; the same ones each time."""
    count = min(count, len(items))
    return [items[index * len(items) // count] for index in range(count)]


def learnability(valid: np.ndarray) -> np.ndarray:
    """p (1 - p) of each group, estimated without bias: the sample variance of its 0s and 1s.

    `valid` has shape (groups, answers), the result (groups,).
    """
    return valid.var(axis=1, ddof=1)


def mixed_groups(rewards: np.ndarray) -> np.ndarray:
    """Whether the rewards of a group differ; rewards have shape (groups, answers), the result (groups,)."""
    return ~np.isclose(rewards.max(axis=1), rewards.min(axis=1))


def absolute_advantages(rewards: np.ndarray, scale: str = "group") -> np.ndarray:
    """Mean absolute advantage of each group: |r - mean of the group| / (s + 1e-4).

    s is the sample standard deviation of the `group` (GRPO, 2402.03300) or of the whole `batch`; with `none`
    nothing is divided (2503.20783). `rewards` has shape (groups, answers), the result (groups,).
    """
    distance = np.abs(rewards - rewards.mean(axis=1, keepdims=True))
    if scale == "none":
        return distance.mean(axis=1)
    spread = rewards.std(axis=1, ddof=1, keepdims=True) if scale == "group" else rewards.std(ddof=1)
    return (distance / (spread + _SCALE_FLOOR)).mean(axis=1)


def _bootstrapped(values: np.ndarray, resamples: int = 9_999) -> Mean:
    """Mean of values, one a group, with a percentile bootstrap interval over the groups."""
    shares = np.full(len(values), 1 / len(values))
    weights = np.random.default_rng(0).multinomial(len(values), shares, size=resamples)
    low, high = np.percentile(weights @ values / len(values), [2.5, 97.5])
    return Mean(value=float(values.mean()), low=float(low), high=float(high))
