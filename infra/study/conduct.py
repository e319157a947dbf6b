"""What the designers of a round did: the configs they made, how their proposals behaved, what they cost, and whether pilots knew."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from engineer.behaviour import ProposalBehaviour, budgets
from envgen.config import EnvConfig
from envgen.frozen import Frozen
from infra.comparison.pilot_gain import SCORES, PilotPair, RankCorrelation, pilot_pairs, rank_correlations
from infra.runs.fork import STAGE_STEPS
from infra.runs.results import StageResult
from infra.study.records import StoredRun
from infra.study.spec import Stage0

CONFIG_SCORES = ("wait_ratio", "size", "hole_ratio")
"""What of a config is correlated with the gain, see `ConfigPair`."""


class Mean(Frozen):
    """A mean over the proposals of which it is defined."""

    value: float
    count: int


class Behaviour(Frozen):
    """How the proposals of an arm behaved; formulas in `engineer.behaviour`. A gate's decisions are no proposals."""

    proposals: int
    edit_shares: Mean | None
    """L1 distance of the shares of the data, 0 to 2."""
    edit_holes: Mean | None
    """L1 distance of the hole ratios, over sizes."""
    edit_waits: Mean | None
    """L1 distance of the wait ratios, over sizes."""
    agreement: Mean | None
    """-1 to 1."""
    undone: Mean | None
    """After a drop of the valid rate, -1 to 1."""
    unsolved: Mean | None
    """Share of the proposed data on sizes under 5 % valid."""
    solved: Mean | None
    """Share of the proposed data on sizes over 95 % valid."""
    true_claims: Mean | None
    """Share of the claims of a rationale that hold, of those that can be checked."""
    kept: int
    """Proposals of which nothing could be used, so that the config before was kept."""
    projected: int
    """Proposals that had to be changed to be legal."""
    answers: int
    """Of a model to the design question, second attempts and rejected candidates included; 0 for designers that ask none."""
    unreadable: int
    """Answers in which no config could be read."""


class StageConfig(Frozen):
    """The config that a stage of an arm trained on, mean over seeds."""

    shares: dict[int, float]
    """Map size -> share of the data."""
    waits: dict[int, float | None]
    """Map size -> wait ratio, over the seeds that have data there; None if no seed has."""
    hole_ratio: float
    """Mean over the data."""
    wait_ratio: float
    """Share of the data whose optimal plan needs a wait."""
    size: float
    """Mean map size of the data."""
    different: int
    """How many different configs the seeds have; a designer that does not draw gives all seeds that share a stage 0 the same one."""


class Conduct(Frozen):
    """What the designer of an arm did."""

    configs: tuple[StageConfig, ...]
    """Of each stage, stage 0 first."""
    behaviour: Behaviour
    steps: tuple[int, ...]
    """Optimizer steps of all stages of a run, the different numbers that occur."""
    tokens: dict[str, float]
    """Kind -> tokens of a run, mean over seeds, without stage 0."""
    seconds: float
    """Of a run, mean over seeds, without stage 0 and the test."""


class Correlations(Frozen):
    """Rank correlations with the gain of a stage."""

    pooled: tuple[RankCorrelation, ...]
    by_stage: dict[int, tuple[RankCorrelation, ...]]
    """Stage -> correlations over its runs only, since early stages gain more than late ones whatever they train on."""


class PilotFinding(Correlations):
    """Whether the pilots' scores order the gains of the stages that followed."""

    pairs: tuple[PilotPair, ...]
    """What is correlated."""
    within_seeds: bool
    """Whether scores and gains are differences to the other arms of the seed, see `_comparable`."""


class ConfigPair(Frozen):
    """One redesigned stage: what it trained on, mean over the data, and what it gained."""

    run: str
    stage: int
    wait_ratio: float
    size: float
    """Map size."""
    hole_ratio: float
    gain: float
    """Valid rate after the stage minus that of the policy it started from, -1 to 1."""


AnyPair = TypeVar("AnyPair", PilotPair, ConfigPair)


def conduct(runs: Sequence[StoredRun]) -> Conduct:
    """What the designer of an arm did in its runs."""
    stages = range(min(len(run.results.stages) for run in runs))
    return Conduct(
        configs=tuple(_config([run.results.stages[stage].config for run in runs]) for stage in stages),
        behaviour=_behaviour([stage for run in runs for stage in run.results.stages if not stage.overruled]),
        steps=tuple(sorted({sum(stage.training.steps for stage in run.results.stages) for run in runs})),
        tokens={kind: float(np.mean([run.tokens.get(kind, 0.0) for run in runs])) for kind in runs[0].tokens},
        seconds=float(np.mean([run.seconds for run in runs])),
    )


def total_seconds(runs: Sequence[StoredRun], stage_0: Stage0) -> float:
    """Wall time of all curricula of a round and of the stages 0 that they go on from, each counted once, without the test."""
    roots = [runs[0]] if stage_0 == "one" else {run.seed: run for run in runs}.values()
    return sum(run.seconds for run in runs) + sum(run.results.stages[0].seconds.get(step, 0.0) for run in roots for step in STAGE_STEPS)


def pilot_finding(runs: Iterable[StoredRun], stage_0: Stage0) -> PilotFinding:
    """Pilots and gains of all runs of a round."""
    found = _comparable([(run.seed, pair) for run in runs for pair in pilot_pairs(run.policy, run.results)], SCORES, stage_0)
    return PilotFinding(pairs=tuple(found), within_seeds=stage_0 == "per-seed", pooled=rank_correlations(found), by_stage=_by_stage(found, SCORES))


def config_finding(runs: Iterable[StoredRun], stage_0: Stage0) -> Correlations:
    """Knobs of the configs of redesigned stages, and the gains of these stages."""
    pairs = [(run.seed, _config_pair(run, stage)) for run in runs for stage in run.results.stages if stage.stage]
    found = _comparable(pairs, CONFIG_SCORES, stage_0)
    return Correlations(pooled=rank_correlations(found, CONFIG_SCORES), by_stage=_by_stage(found, CONFIG_SCORES))


def _comparable(pairs: list[tuple[int, AnyPair]], scores: Sequence[str], stage_0: Stage0) -> list[AnyPair]:
    """The pairs of (seed, pair) as they are correlated.

    Where each seed has a stage 0 of its own, less the mean over the arms of the same seed and stage: a stage 0 that came out low
    raises the gains of all arms that go on from it, and what their pilots say, without any config having helped.
    """
    if stage_0 == "one":
        return [pair for _, pair in pairs]
    members = {(seed, pair.stage): [other for one, other in pairs if (one, other.stage) == (seed, pair.stage)] for seed, pair in pairs}

    def less_mean(seed: int, pair: AnyPair) -> AnyPair:
        arms = members[seed, pair.stage]
        return pair.model_copy(update={name: getattr(pair, name) - float(np.mean([getattr(arm, name) for arm in arms])) for name in (*scores, "gain")})

    return [less_mean(seed, pair) for seed, pair in pairs]


def _by_stage(found: Sequence[PilotPair] | Sequence[ConfigPair], scores: Sequence[str]) -> dict[int, tuple[RankCorrelation, ...]]:
    return {stage: rank_correlations([pair for pair in found if pair.stage == stage], scores) for stage in sorted({pair.stage for pair in found})}


def _config_pair(run: StoredRun, stage: StageResult) -> ConfigPair:
    knobs = _config([stage.config])
    gain = stage.behaviour.valid_change.value
    return ConfigPair(run=run.policy, stage=stage.stage, wait_ratio=knobs.wait_ratio, size=knobs.size, hole_ratio=knobs.hole_ratio, gain=gain)


def _config(configs: list[EnvConfig]) -> StageConfig:
    shares = budgets(configs)

    def over_data(knob: str) -> float:
        ratios = [[getattr(config.sizes[size], knob) if size in config.sizes else 0.0 for config in configs] for size in shares]
        return float((np.array(list(shares.values())) * np.array(ratios)).sum(axis=0).mean())

    waits = {size: [c.sizes[size].wait_ratio for c in configs if size in c.sizes and c.sizes[size].data_ratio > 0] for size in shares}
    return StageConfig(
        shares={size: float(np.mean(parts)) for size, parts in shares.items()},
        waits={size: float(np.mean(ratios)) if ratios else None for size, ratios in waits.items()},
        hole_ratio=over_data("hole_ratio"),
        wait_ratio=over_data("wait_ratio"),
        size=float(sum(size * np.mean(parts) for size, parts in shares.items())),
        different=len({config.model_dump_json() for config in configs}),
    )


def _behaviour(stages: list[StageResult]) -> Behaviour:
    measured = [stage.behaviour for stage in stages]

    def mean(of: Callable[[ProposalBehaviour], float | None]) -> Mean | None:
        values = [value for one in measured if (value := of(one)) is not None]
        return Mean(value=float(np.mean(values)), count=len(values)) if values else None

    answers = [attempt for stage in stages for proposal in (stage.proposal, *stage.rejected) for attempt in proposal.attempts]
    return Behaviour(
        proposals=len(stages),
        edit_shares=mean(lambda one: one.edit.data_ratio),
        edit_holes=mean(lambda one: one.edit.hole_ratio),
        edit_waits=mean(lambda one: one.edit.wait_ratio),
        agreement=mean(lambda one: one.agreement),
        undone=mean(lambda one: one.undone),
        unsolved=mean(lambda one: one.proposed_shares.unsolved),
        solved=mean(lambda one: one.proposed_shares.solved),
        true_claims=mean(lambda one: one.claims.true / one.claims.checked if one.claims and one.claims.checked else None),
        kept=sum(stage.proposal.fallback is not None for stage in stages),
        projected=sum(bool(stage.proposal.changes) for stage in stages),
        answers=len(answers),
        unreadable=sum(attempt.error is not None for attempt in answers),
    )
