"""Evaluate a chat model on instances: prompt, completion, verdict."""

from collections.abc import Sequence

import numpy as np

from envgen.environment import Environment, FaultCount, Instance
from envgen.errors import DataError
from envgen.estimates import Difference, difference
from policy.chat.contract import ChatModel, Progress, Sampling, ask
from policy.rollouts import Rollout


def evaluate(
    model: ChatModel,
    environment: Environment,
    instances: Sequence[Instance],
    style: str,
    sampling: Sampling,
    progress: Progress | None = None,
) -> list[Rollout]:
    """One rollout for each of `instances`, in order; DataError if too many answers could not be judged."""
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


def gains(before: list[Rollout], after: list[Rollout], samples: int) -> tuple[Difference, Difference]:
    """Change of the valid and the optimal rate, paired over the instances within strata; DataError if the
    instances differ. `samples`: answers to each instance, which stand in a row and count as their mean."""
    strata = [rollout.instance.stratum for rollout in before[::samples]]
    valid, optimal = (_change(before, after, field, samples) for field in ("valid", "optimal"))
    return difference(valid, strata), difference(optimal, strata)


def valid_gains(before: list[Rollout], after: list[Rollout], samples: int) -> dict[str, Difference]:
    """Stratum -> change of its valid rate, likewise paired, in the order of the instances."""
    change = _change(before, after, "valid", samples)
    strata = np.array([rollout.instance.stratum for rollout in before[::samples]])
    return {name: difference(change[strata == name]) for name in dict.fromkeys(strata.tolist())}


def _change(before: list[Rollout], after: list[Rollout], field: str, samples: int) -> np.ndarray:
    """The mean flag of an instance's verdicts after minus before, [instances], -1 to 1."""
    if [r.instance.id for r in before] != [r.instance.id for r in after]:
        problem = "the two evaluations are not on the same instances in the same order"
        raise DataError(f"{problem}, so they cannot be paired; evaluate both on one data set")
    flags = np.array([[getattr(r.verdict, field) for r in part] for part in (before, after)], float)
    old, new = flags.reshape(2, -1, samples).mean(axis=2)
    return new - old
