"""`benchmark.json`: what a model answered, counted by wait subset, agents and map size, with intervals."""

from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Any

from pydantic import Field

from envgen.breakdown import Rate, wilson
from envgen.frozen import Frozen
from envgen.mapf.benchmark import Item
from envgen.mapf.prompts import PromptStyle
from envgen.mapf.verifier import FailureCategory
from infra.analysis.formats import rate_text
from policy.chat.engine_config import EngineConfig
from policy.rollouts import Rollout

RESULTS_FILE = "benchmark.json"


class Asked(Frozen):
    """What a benchmark asked, of whom and how."""

    model: str
    model_identity: str
    """Digest of a checkpoint; a hub id or an endpoint stands for itself."""
    data: str
    data_digest: str
    limit: int | None
    """Instances of each wait subset, number of agents and map size at most."""
    style: PromptStyle
    answer_tokens: int
    engine: EngineConfig | None = None
    """What ran the model; None for an endpoint."""
    code: str
    """Version of envwright that judged the answers."""


class Score(Frozen):
    """The answers of one wait subset, number of agents and map size; None stands for all of them together."""

    subset: str | None
    agents: int | None
    size: int | None
    n: int = Field(ge=1)
    valid: int = Field(ge=0)
    optimal: int = Field(ge=0)
    valid_rate: Rate
    """With its 95 % Wilson interval, as `optimal_rate`."""
    optimal_rate: Rate
    truncated: int = Field(ge=0)
    """Answers that hit the token limit."""
    completion_tokens: int = Field(ge=0)
    failures: dict[FailureCategory, int]


class BenchmarkResults(Frozen):
    """All that a benchmark has shown."""

    asked: Asked
    seconds: float
    """That the answers took."""
    scores: tuple[Score, ...]
    """Every wait subset, number of agents and map size that occurs, and all sums over them."""

    def score(
        self, subset: str | None = None, agents: int | None = None, size: int | None = None
    ) -> Score | None:
        """The score of a group; None if no instance is in it."""
        return next(
            (
                score
                for score in self.scores
                if (score.subset, score.agents, score.size) == (subset, agents, size)
            ),
            None,
        )

    @property
    def overall(self) -> Score:
        """All answers."""
        return next(score for score in self.scores if score.subset is score.agents is score.size is None)

    @property
    def subsets(self) -> list[str]:
        """The wait subsets that occur."""
        return sorted({score.subset for score in self.scores if score.subset is not None})

    @property
    def agents(self) -> list[int]:
        """The numbers of agents that occur, ascending."""
        return sorted({score.agents for score in self.scores if score.agents is not None})

    @property
    def sizes(self) -> list[int]:
        """The map sizes that occur, ascending."""
        return sorted({score.size for score in self.scores if score.size is not None})


def count(items: Sequence[Item], rollouts: Sequence[Rollout]) -> tuple[Score, ...]:
    """The scores of answers to `items`, in the same order: all sums first, then each group."""
    groups: dict[tuple[str | None, int | None, int | None], list[Rollout]] = {}
    for item, rollout in zip(items, rollouts, strict=True):
        problem = item.instance.problem
        for group in product((None, item.subset), (None, problem.num_agents), (None, problem.size)):
            groups.setdefault(group, []).append(rollout)
    order = sorted(groups, key=lambda group: (group[0] or "", group[1] or 0, group[2] or 0))
    return tuple(_score(group, groups[group]) for group in order)


def scores_table(results: BenchmarkResults) -> list[dict[str, Any]]:
    """Rows for the Prefect UI: by agents and wait subset, by agents and map size, and one for all."""
    groups = [
        *product(results.agents, results.subsets, [None]),
        *product(results.agents, [None], results.sizes),
    ]
    return [
        {
            "agents": score.agents or "all",
            "wait subset": score.subset or "all",
            "map size": f"{score.size}x{score.size}" if score.size else "all",
            "instances": score.n,
            "valid": rate_text(score.valid_rate),
            "optimal": rate_text(score.optimal_rate),
        }
        for agents, subset, size in (*groups, (None, None, None))
        if (score := results.score(subset, agents, size))
    ]


def _score(group: tuple[str | None, int | None, int | None], rollouts: list[Rollout]) -> Score:
    subset, agents, size = group
    n, verdicts = len(rollouts), [rollout.verdict for rollout in rollouts]
    valid, optimal = sum(v.valid for v in verdicts), sum(v.optimal for v in verdicts)
    found = Counter(v.category for v in verdicts)
    return Score(
        subset=subset,
        agents=agents,
        size=size,
        n=n,
        valid=valid,
        optimal=optimal,
        valid_rate=wilson(valid, n),
        optimal_rate=wilson(optimal, n),
        truncated=sum(r.truncated for r in rollouts),
        completion_tokens=sum(r.completion_tokens for r in rollouts),
        failures={category: found[category] for category in FailureCategory},
    )
