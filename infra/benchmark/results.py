"""`benchmark.json`: what a model answered, counted by group of instances, with intervals."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

from pydantic import Field

from envgen.estimates import Rate, wilson
from envgen.frozen import Frozen
from envgen.registry import EnvironmentSpec
from envgen.suites import ALL, Benchmark, Item, benchmark_of
from infra.benchmark.spec import BenchmarkSpec
from policy.chat.contract import token_sum
from policy.rollouts import Rollout

RESULTS_FILE = "benchmark.json"


class Score(Frozen):
    """The answers to a group of instances."""

    groups: dict[str, str]
    """Kind -> label of the group that all are in; empty for all answers together."""
    n: int = Field(ge=1)
    valid: int = Field(ge=0)
    optimal: int = Field(ge=0)
    valid_rate: Rate
    """With its 95 % Wilson interval, as `optimal_rate`."""
    optimal_rate: Rate
    truncated: int = Field(ge=0)
    """Answers that hit the token limit."""
    completion_tokens: int | None = Field(ge=0)
    """None if a server did not report them."""
    failures: dict[str, int]


class BenchmarkResults(Frozen):
    """All that a benchmark has shown."""

    spec: BenchmarkSpec
    model_identity: str
    """Digest of a checkpoint; a hub id or an endpoint stands for itself."""
    data_digest: str
    environment: EnvironmentSpec = EnvironmentSpec()
    code: str
    """Version of envwright that judged the answers."""
    seconds: float
    """That the answers took."""
    scores: tuple[Score, ...]
    """All answers, then every group and everything that groups have in common."""

    @property
    def benchmark(self) -> Benchmark:
        """How it is shown, and what others published."""
        return benchmark_of(self.environment.load())

    def score(self, groups: Mapping[str, str]) -> Score | None:
        """The score of what is in all these groups, `ALL` for any; None if no instance is."""
        wanted = {kind: label for kind, label in groups.items() if label != ALL}
        return next((score for score in self.scores if score.groups == wanted), None)

    @property
    def overall(self) -> Score:
        """All answers."""
        return self.scores[0]

    def labels(self, kind: str) -> list[str]:
        """The groups of a kind that occur, by the numbers in their labels."""
        return sorted({score.groups[kind] for score in self.scores if kind in score.groups}, key=_numbers)


def _numbers(label: str) -> list[tuple[int, str]]:
    return [(int(part or 0), text) for text, part in re.findall(r"(\D+|(\d+))", label)]


def count(items: Sequence[Item], rollouts: Sequence[Rollout], categories: Sequence[str]) -> tuple[Score, ...]:
    """The scores of answers to `items`, in the same order, failures by `categories`."""
    groups: dict[tuple[tuple[str, str], ...], list[Rollout]] = {}
    for item, rollout in zip(items, rollouts, strict=True):
        for number in range(len(item.groups) + 1):
            for group in combinations(item.groups.items(), number):
                groups.setdefault(group, []).append(rollout)
    return tuple(_score(dict(group), groups[group], categories) for group in sorted(groups, key=len))


def _score(groups: dict[str, str], rollouts: list[Rollout], categories: Sequence[str]) -> Score:
    n, verdicts = len(rollouts), [rollout.verdict for rollout in rollouts]
    valid, optimal = sum(v.valid for v in verdicts), sum(v.optimal for v in verdicts)
    counts = Counter(v.category for v in verdicts)
    return Score(
        groups=groups,
        n=n,
        valid=valid,
        optimal=optimal,
        valid_rate=wilson(valid, n),
        optimal_rate=wilson(optimal, n),
        truncated=sum(r.truncated for r in rollouts),
        completion_tokens=token_sum(r.completion_tokens for r in rollouts),
        failures={category: counts[category] for category in categories},
    )
