"""Evaluate a chat model on instances: prompt, completion, verdict."""

from collections.abc import Sequence

import numpy as np

from envgen.breakdown import Difference, paired_difference
from envgen.environment import Environment, FaultCount, Instance
from envgen.errors import DataError
from envgen.frozen import Frozen
from policy.chat.contract import ChatModel, Progress, Sampling, ask
from policy.rollouts import Rollout


class Changes(Frozen):
    """What a stage changed on the validation set, against the policy that it started from."""

    valid: dict[str, Difference]
    """Stratum -> change of the valid rate, paired over the instances."""


def evaluate(
    model: ChatModel,
    environment: Environment,
    instances: Sequence[Instance],
    style: str,
    sampling: Sampling,
    progress: Progress | None = None,
) -> list[Rollout]:
    """One rollout an instance, in order; DataError if too many answers could not be judged."""
    completions = model.complete([ask(environment.prompt(i, style)) for i in instances], sampling, progress)
    verdicts = environment.judge(instances, [completion.text for completion in completions])
    FaultCount(environment.space).add(verdicts, last=True)
    return [
        Rollout(
            instance=instance,
            completion=completion.text,
            completion_tokens=completion.completion_tokens,
            truncated=completion.finish_reason == "length",
            verdict=verdict,
        )
        for instance, completion, verdict in zip(instances, completions, verdicts, strict=True)
    ]


def gains(before: list[Rollout], after: list[Rollout]) -> tuple[Difference, Difference]:
    """Change of the valid and the optimal rate, with paired intervals; DataError if the instances differ."""
    return (
        paired_difference(*_outcomes(before, after, "valid")),
        paired_difference(*_outcomes(before, after, "optimal")),
    )


def solved_by_one(before: list[Rollout], after: list[Rollout]) -> tuple[int, int]:
    """Numbers of instances that only `after` and only `before` solved; DataError if they are not the same."""
    old, new = _outcomes(before, after, "valid")
    return int((new & ~old).sum()), int((old & ~new).sum())


def valid_gains(before: list[Rollout], after: list[Rollout]) -> dict[str, Difference]:
    """Stratum -> change of its valid rate, likewise paired, in the order of the instances."""
    outcomes = _outcomes(before, after, "valid")
    strata = [rollout.instance.stratum for rollout in before]
    return {
        name: paired_difference(*outcomes[:, [stratum == name for stratum in strata]])
        for name in dict.fromkeys(strata)
    }


def _outcomes(before: list[Rollout], after: list[Rollout], field: str) -> np.ndarray:
    """A flag of the verdicts before and after, [2, n], bool."""
    if [r.instance.id for r in before] != [r.instance.id for r in after]:
        raise DataError(
            "the two evaluations are not on the same instances in the same order, so they cannot be paired; "
            "evaluate both on one data set"
        )
    return np.array([[getattr(r.verdict, field) for r in part] for part in (before, after)], dtype=bool)
