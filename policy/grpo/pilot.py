"""Pilot: what a config would teach the policy, from a few groups of its answers, ahead of training."""

from collections.abc import Sequence

import numpy as np

from envgen.breakdown import wilson
from envgen.family import Instance, TaskFamily
from policy.chat.contract import ChatModel, Progress, Sampling, ask
from policy.grpo.pilot_score import Mean, PilotScore
from policy.grpo.rewards import RewardWeights, terms

_SCALE_FLOOR = 1e-4
"""Added to a group's standard deviation before it divides, as TRL's GRPO does."""


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
    completions = model.complete(
        [ask(family.prompt(instance, style)) for instance in repeated], sampling, progress
    )
    verdicts = family.judge(repeated, [completion.text for completion in completions])
    weights = rewards.weights
    found = [terms(family, verdict) for verdict in verdicts]
    values = np.array([sum(weight * one[name] for name, weight in weights.items()) for one in found])
    grouped = values.reshape(len(instances), group_size)
    return PilotScore(
        groups=len(instances),
        group_size=group_size,
        mixed=wilson(int(mixed_groups(grouped).sum()), len(instances)),
        advantage=_bootstrapped(absolute_advantages(grouped, scale)),
        valid=_bootstrapped(
            np.array([verdict.valid for verdict in verdicts], dtype=float).reshape(grouped.shape).mean(axis=1)
        ),
        prompt_tokens=sum(completion.prompt_tokens for completion in completions),
        completion_tokens=sum(completion.completion_tokens for completion in completions),
    )


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
    weights = np.random.default_rng(0).multinomial(
        len(values), np.full(len(values), 1 / len(values)), size=resamples
    )
    low, high = np.percentile(weights @ values / len(values), [2.5, 97.5])
    return Mean(value=float(values.mean()), low=float(low), high=float(high))
