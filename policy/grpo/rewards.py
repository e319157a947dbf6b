"""Rewards of a completion: fixed, and out of the engineer's reach."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import isnan, nan
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from envgen.environment import Environment, FaultCount, Instance, Verdict
from envgen.frozen import Frozen

Weight = Annotated[float, Field(ge=0)]
LOGGED_TERMS = ("format", "valid", "optimal")
"""Terms of every environment, computed whatever their weight, for the training log."""
EXCERPT = 300
"""Characters that are kept of the ends of a failed question and answer."""


class RewardWeights(Frozen, use_attribute_docstrings=True):
    """The reward is the weighted sum of terms from 0 to 1. Our choice: the paper publishes no formula.

    Besides these three a weight may have the name of a term of partial progress of the environment.
    """

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)
    __pydantic_extra__: dict[str, Weight]  # pyright: ignore[reportIncompatibleVariableOverride]
    format: Weight = 0.0
    """0 or 1: the answer can be read."""
    valid: Weight = 1.0
    """0 or 1: the answer is valid."""
    optimal: Weight = 0.5
    """0 or 1: the answer is the best as well."""

    def check(self, environment: Environment) -> None:
        """ValueError for a term that the environment does not have."""
        for name in self.__pydantic_extra__:
            if name not in environment.space.terms:
                names = ", ".join((*LOGGED_TERMS, *environment.space.terms))
                raise ValueError(f"rewards.{name}: {environment.name} has no such term; known are {names}")

    @property
    def weights(self) -> dict[str, float]:
        """Term -> weight: the logged terms, then weighted partial progress in the order of the names."""
        partial = {name: weight for name, weight in sorted(self.__pydantic_extra__.items()) if weight}
        return {name: getattr(self, name) for name in LOGGED_TERMS} | partial


DEFAULT_WEIGHTS = RewardWeights.model_validate({})


def terms(environment: Environment, verdict: Verdict) -> dict[str, float]:
    """Return every term of the reward, 0 to 1; NaN each if the completion could not be scored."""
    fault = environment.space.fault
    if fault and verdict.category == fault:
        return dict.fromkeys((*LOGGED_TERMS, *environment.space.terms), nan)
    return {
        "format": float(verdict.category != environment.space.categories[0]),
        "valid": float(verdict.valid),
        "optimal": float(verdict.optimal),
        **verdict.terms,
    }


def reward_functions(
    environment: Environment,
    weights: RewardWeights,
    faults: FaultCount,
    instances: Sequence[Instance],
    failed: list[dict[str, str]] | None = None,
    opening: str = "",
) -> list[Callable[..., list[float | None]]]:
    """The terms as TRL reward functions, as in `RewardWeights.weights`; they judge a batch once between them.

    Each takes `completions` (conversational) and the data set's column `index`, the place of an instance in
    `instances`. Completions that could not be scored get None, which leaves them out of the mean of their
    group; `faults` raises DataError if they are too many. `failed` gets invalid answers, see `train_log`.
    `opening` is the start of each answer that the chat template has written."""

    @lru_cache(1)  # TRL hands the same batch to one function after the other.
    def judged(
        texts: tuple[str, ...], places: tuple[int, ...], questions: tuple[str, ...]
    ) -> list[dict[str, float]]:
        asked = [instances[place] for place in places]
        verdicts = environment.judge(asked, texts)
        faults.add(verdicts)
        if failed is not None:
            failed.extend(_failed(asked, list(questions), list(texts), verdicts))
        return [terms(environment, verdict) for verdict in verdicts]

    def scored(name: str) -> Callable[..., list[float | None]]:
        def reward(
            completions: list[Any], index: list[int], prompts: Sequence[Any] = (), **_: Any
        ) -> list[float | None]:
            answers = [text if isinstance(text, str) else text[-1]["content"] for text in completions]
            texts, questions = (opening + answer for answer in answers), (p[-1]["content"] for p in prompts)
            earned = judged(tuple(texts), tuple(index), tuple(questions))
            return [None if isnan(values[name]) else values[name] for values in earned]

        reward.__name__ = name
        return reward

    return [scored(name) for name in weights.weights]


def _failed(
    instances: list[Instance], questions: list[str], answers: list[str], verdicts: list[Verdict]
) -> list[dict[str, str]]:
    return [
        {
            "stratum": instance.stratum,
            "question": question[-EXCERPT:],
            "answer": answer[-EXCERPT:],
            "verdict": verdict.detail or str(verdict.category),
        }
        for instance, question, answer, verdict in zip(instances, questions, answers, verdicts, strict=True)
        if not verdict.valid
    ]
