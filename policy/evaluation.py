"""Evaluate a chat model on instances: prompt, completion, verdict."""

from collections.abc import Callable, Sequence

import numpy as np

from envgen.breakdown import Difference, paired_difference
from envgen.errors import DataError
from envgen.family import Instance, TaskFamily
from envgen.frozen import Frozen
from policy.chat.contract import ChatModel, Progress, Sampling, ask
from policy.rollouts import Rollout


class Changes(Frozen):
    """What a stage changed on the validation set, against the policy that it started from."""

    valid: dict[str, Difference]
    """Stratum -> change of the valid rate, paired over the instances."""


def evaluate(
    model: ChatModel,
    family: TaskFamily,
    instances: Sequence[Instance],
    style: str,
    sampling: Sampling,
    progress: Progress | None = None,
) -> list[Rollout]:
    """One rollout an instance, in order."""
    completions = model.complete([ask(family.prompt(i, style)) for i in instances], sampling, progress)
    verdicts = family.judge(instances, [completion.text for completion in completions])
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
    _check_paired(before, after)
    return _change(before, after, lambda r: r.verdict.valid), _change(
        before, after, lambda r: r.verdict.optimal
    )


def solved_by_one(before: list[Rollout], after: list[Rollout]) -> tuple[int, int]:
    """Numbers of instances that only `after` and only `before` solved; DataError if they are not the same."""
    _check_paired(before, after)
    pairs = [(old.verdict.valid, new.verdict.valid) for old, new in zip(before, after, strict=True)]
    return pairs.count((False, True)), pairs.count((True, False))


def valid_gains(before: list[Rollout], after: list[Rollout]) -> dict[str, Difference]:
    """Stratum -> change of its valid rate, likewise paired, in the order of the instances."""
    _check_paired(before, after)

    def of(rollouts: list[Rollout], name: str) -> list[Rollout]:
        return [r for r in rollouts if r.instance.stratum == name]

    strata = dict.fromkeys(r.instance.stratum for r in before)
    return {name: _change(of(before, name), of(after, name), lambda r: r.verdict.valid) for name in strata}


def _check_paired(before: list[Rollout], after: list[Rollout]) -> None:
    if [r.instance.id for r in before] != [r.instance.id for r in after]:
        raise DataError(
            "the two evaluations are not on the same instances in the same order, so they cannot be paired; "
            "evaluate both on one data set"
        )


def _change(before: list[Rollout], after: list[Rollout], outcome: Callable[[Rollout], bool]) -> Difference:
    return paired_difference(np.array([outcome(r) for r in before]), np.array([outcome(r) for r in after]))
