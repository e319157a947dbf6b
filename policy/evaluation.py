"""Evaluate a chat model on instances: prompt, completion, verdict."""

from collections.abc import Callable

import numpy as np

from envgen.breakdown import Difference, paired_difference
from envgen.errors import DataError
from envgen.frozen import Frozen
from envgen.mapf.problem import Instance
from envgen.mapf.prompts import PromptStyle, prompt
from envgen.mapf.verifier import verify_batch
from policy.chat.contract import ChatModel, Progress, Sampling, ask
from policy.rollouts import Rollout


class Changes(Frozen):
    """What a stage changed on the validation set, against the policy that it started from."""

    valid: dict[int, Difference]
    """Map size -> change of the valid rate, paired over the instances."""


def evaluate(
    model: ChatModel,
    instances: list[Instance],
    style: PromptStyle,
    sampling: Sampling,
    progress: Progress | None = None,
) -> list[Rollout]:
    """One rollout an instance, in order."""
    completions = model.complete([ask(prompt(i.problem, style)) for i in instances], sampling, progress)
    verdicts = verify_batch(instances, [completion.text for completion in completions])
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


def valid_gains(before: list[Rollout], after: list[Rollout]) -> dict[int, Difference]:
    """Map size, ascending -> change of its valid rate, likewise paired."""
    _check_paired(before, after)

    def of_size(rollouts: list[Rollout], size: int) -> list[Rollout]:
        return [r for r in rollouts if r.instance.problem.size == size]

    sizes = sorted({r.instance.problem.size for r in before})
    return {
        size: _change(of_size(before, size), of_size(after, size), lambda r: r.verdict.valid)
        for size in sizes
    }


def _check_paired(before: list[Rollout], after: list[Rollout]) -> None:
    if [r.instance.problem.id for r in before] != [r.instance.problem.id for r in after]:
        raise DataError(
            "the two evaluations are not on the same instances in the same order, so they cannot be paired; "
            "evaluate both on one data set"
        )


def _change(before: list[Rollout], after: list[Rollout], outcome: Callable[[Rollout], bool]) -> Difference:
    return paired_difference(np.array([outcome(r) for r in before]), np.array([outcome(r) for r in after]))
