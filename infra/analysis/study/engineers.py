"""What the engineers of a round did: their configs, how proposals behaved, what pilots knew."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from engineer.behaviour import ProposalBehaviour, budgets
from envgen.config import EnvConfig
from envgen.family import Space, TaskFamily
from envgen.frozen import Frozen
from envgen.suites import test_suite_of
from infra.analysis.correlation import RankCorrelation, ScoredStage, piloted_stages, rank_correlations, scored
from infra.analysis.formats import SPACE, hundred, label, named_strata, percent
from infra.analysis.spec import Stage0
from infra.analysis.study.records import StoredRun
from infra.runs.fork import STAGE_STEPS
from infra.runs.results import StageResult


class Measure(NamedTuple):
    """What is averaged over the proposals of an arm; formulas in `engineer.behaviour`."""

    words: str
    form: Callable[[float], str] | None
    """How a mean is written; None for one from -1 to 1 with the number of proposals behind it."""
    of: Callable[[ProposalBehaviour], float | None]


def measures(space: Space) -> dict[str, Measure]:
    """What there is of the proposals of a family."""
    over = f"points over {space.key}"
    edits = {
        f"edit_{knob.name}": Measure(
            f"edit of the {label(knob.name)}s, {over}",
            hundred,
            lambda one, name=knob.name: one.edit.knobs.get(name),
        )
        for knob in space.knobs
    }
    return {
        "edit_shares": Measure(f"edit of the shares, {over}", hundred, lambda one: one.edit.data_ratio),
        **edits,
        "agreement": Measure("agreement with the failures, −1 to 1", None, lambda one: one.agreement),
        "undone": Measure("edit taken back after a drop, −1 to 1", None, lambda one: one.undone),
        "unsolved": Measure(
            f"data on {space.key} under 5{SPACE}% valid", percent, lambda one: one.proposed_shares.unsolved
        ),
        "solved": Measure(
            f"data on {space.key} over 95{SPACE}% valid", percent, lambda one: one.proposed_shares.solved
        ),
        "true_claims": Measure(
            "claims of the rationale that are true",
            percent,
            lambda one: one.claims.true / one.claims.checked if one.claims and one.claims.checked else None,
        ),
    }


class Mean(Frozen):
    """A mean over the proposals of which it is defined."""

    value: float
    count: int


class Behaviour(Frozen):
    """How the proposals of an arm behaved. A gate's decisions are no proposals."""

    proposals: int
    means: dict[str, Mean | None]
    """Of `measures`; None if one is not defined for any proposal."""
    kept: int
    """Proposals of which nothing could be used, so that the config before was kept."""
    projected: int
    """Proposals that had to be changed to be legal."""
    answers: int
    """Of a model to the design question, second attempts and rejected candidates included."""
    unreadable: int
    """Answers in which no config could be read."""


class StageConfig(Frozen):
    """The config that a stage of an arm trained on, mean over seeds."""

    shares: dict[str, float]
    """Stratum -> share of the data."""
    followed: dict[str, float | None]
    """Stratum -> `TestSuite.followed`, over the seeds that have data there; None if no seed has."""
    means: dict[str, float]
    """`TestSuite.scores` over the data."""
    different: int
    """How many different configs the seeds have; one if nothing is drawn and the seeds share a stage 0."""


class Conduct(Frozen):
    """What the engineer of an arm did."""

    configs: tuple[StageConfig, ...]
    """Of each stage, stage 0 first."""
    behaviour: Behaviour
    steps: tuple[int, ...]
    """Optimizer steps of all stages of a run, the different numbers that occur."""


class Correlations(Frozen):
    """Rank correlations of scores with the gain of a stage."""

    stages: tuple[ScoredStage, ...]
    """What is correlated."""
    within_seeds: bool
    """Whether scores and gains are differences to the other arms of the seed, see `_less_means`."""
    pooled: tuple[RankCorrelation, ...]
    by_stage: dict[int, tuple[RankCorrelation, ...]]
    """Stage -> correlations over its runs only: early stages gain more whatever they train on."""

    @property
    def rows(self) -> list[tuple[str, tuple[RankCorrelation, ...]]]:
        """Over all stages, then over each of them, where there are any."""
        each = [("all", self.pooled), *((f"stage {stage}", one) for stage, one in self.by_stage.items())]
        return [(name, found) for name, found in each if found]


def conduct(runs: Sequence[StoredRun], family: TaskFamily) -> Conduct:
    """What the engineer of an arm did in its runs."""
    stages = range(min(len(run.results.stages) for run in runs))
    proposed = [stage for run in runs for stage in run.results.stages if not stage.overruled]
    return Conduct(
        configs=tuple(
            _config([run.results.stages[stage].config for run in runs], family) for stage in stages
        ),
        behaviour=_behaviour(proposed, measures(family.space)),
        steps=tuple(sorted({sum(stage.training.steps for stage in run.results.stages) for run in runs})),
    )


def total_seconds(runs: Sequence[StoredRun], stage_0: Stage0) -> float:
    """Wall time of all curricula of a round and of their stages 0, each counted once, without the test."""
    roots = [runs[0]] if stage_0 == "one" else list({run.seed: run for run in runs}.values())
    shared = [root.results.stages[0].seconds.get(step, 0.0) for root in roots for step in STAGE_STEPS]
    return sum(run.seconds for run in runs) + sum(shared)


def pilot_finding(runs: Iterable[StoredRun], stage_0: Stage0) -> Correlations:
    """Pilots and gains of all runs of a round."""
    found = [(run.seed, one) for run in runs for one in piloted_stages(run.policy, run.results)]
    return _correlated(found, stage_0)


def config_finding(runs: Iterable[StoredRun], stage_0: Stage0, family: TaskFamily) -> Correlations:
    """Scores of the configs of redesigned stages, and the gains of these stages."""
    found = []
    for run in runs:
        for stage in run.results.stages[1:]:
            found.append((run.seed, scored(run.policy, stage, _config([stage.config], family).means)))
    return _correlated(found, stage_0)


def _correlated(found: list[tuple[int, ScoredStage]], stage_0: Stage0) -> Correlations:
    stages = [one for _, one in found] if stage_0 == "one" else _less_means(found)
    by_stage: dict[int, list[ScoredStage]] = {}
    for one in sorted(stages, key=lambda one: one.stage):
        by_stage.setdefault(one.stage, []).append(one)
    return Correlations(
        stages=tuple(stages),
        within_seeds=stage_0 == "per-seed",
        pooled=rank_correlations(stages),
        by_stage={number: rank_correlations(found) for number, found in by_stage.items()},
    )


def _less_means(found: list[tuple[int, ScoredStage]]) -> list[ScoredStage]:
    """Scores and gains less the mean over the arms of the same seed and stage.

    A seed's own stage 0 that came out low raises the gains of all arms that go on from it, and what their
    pilots say, without any config having helped.
    """
    arms: dict[tuple[int, int], list[ScoredStage]] = {}
    for seed, one in found:
        arms.setdefault((seed, one.stage), []).append(one)
    less = []
    for seed, one in found:
        others = arms[seed, one.stage]
        means = {
            name: float(np.mean([other.scores[name] for other in others if name in other.scores]))
            for name in one.scores
        }
        scores = {name: value - means[name] for name, value in one.scores.items()}
        gain = one.gain - float(np.mean([other.gain for other in others]))
        less.append(one.model_copy(update={"scores": scores, "gain": gain}))
    return less


def _config(configs: list[EnvConfig], family: TaskFamily) -> StageConfig:
    space, suite, found = family.space, test_suite_of(family), budgets(configs)
    shares = {name: found[name] for name in named_strata(space, configs)}
    parts = {name: [one.strata.get(name) for one in configs] for name in shares}
    followed = {
        name: [part[suite.followed[0]] for part in of_name if part and part.data_ratio > 0]
        for name, of_name in parts.items()
    }

    def over_data(score: str) -> float:
        if score == space.short:
            return float(sum(int(name) * np.mean(share) for name, share in shares.items()))
        ratios = [[part[score] if part else 0.0 for part in of_name] for of_name in parts.values()]
        return float((np.array(list(shares.values())) * np.array(ratios)).sum(axis=0).mean())

    return StageConfig(
        shares={name: float(np.mean(share)) for name, share in shares.items()},
        followed={name: float(np.mean(values)) if values else None for name, values in followed.items()},
        means={score: over_data(score) for score in suite.scores},
        different=len({config.model_dump_json() for config in configs}),
    )


def _behaviour(stages: list[StageResult], measured: dict[str, Measure]) -> Behaviour:
    proposals = [proposal for stage in stages for proposal in (stage.proposal, *stage.rejected)]
    answers = [attempt for proposal in proposals for attempt in proposal.attempts]
    return Behaviour(
        proposals=len(stages),
        means={
            name: _mean(measure.of(stage.behaviour) for stage in stages) for name, measure in measured.items()
        },
        kept=sum(stage.proposal.fallback is not None for stage in stages),
        projected=sum(bool(stage.proposal.changes) for stage in stages),
        answers=len(answers),
        unreadable=sum(attempt.error is not None for attempt in answers),
    )


def _mean(values: Iterable[float | None]) -> Mean | None:
    defined = [value for value in values if value is not None]
    return Mean(value=float(np.mean(defined)), count=len(defined)) if defined else None
