"""The numbers of a round: rates on the test, differences between arms, strata, curves. Those of designing are in `infra.analysis.study.conduct`."""

from collections.abc import Iterable
from typing import Literal

import numpy as np

from engineer.gate import START
from envgen.breakdown import Rate
from envgen.errors import DataError
from envgen.frozen import Frozen
from envgen.problem import Instance
from envgen.verifier import FailureCategory
from infra.analysis.comparison.results import BASELINES, EngineerResult
from infra.analysis.study.conduct import Conduct, Correlations, PilotFinding, conduct, config_finding, pilot_finding, total_seconds
from infra.analysis.study.effects import Effect, effect, family, rate
from infra.analysis.study.records import Outcomes, RoundData, SetName, shared_policy
from infra.analysis.study.spec import Stage0

RateName = Literal["valid", "optimal"]
START_AND_STAGE_0 = {"start": START, "stage 0": 0}
"""The policies that all arms share, as tables name them."""
ALL_OPTIMAL, VALIDATION = "all boards, optimal plans", "validation set"


class SharedPolicy(Frozen):
    """What all arms of a round share, on the test: one policy, with intervals over instances only, or one of each seed."""

    name: str
    valid: Rate
    optimal: Rate
    by_seed: tuple[float, ...]
    """Valid rate of each of its policies, in the order of the seeds if there are several."""
    failures: dict[FailureCategory, float]
    """Share of all answers."""


class ArmFinding(Frozen):
    """One arm of a round, on the test unless said otherwise."""

    arm: str
    seeds: tuple[int, ...]
    valid: Rate
    optimal: Rate
    by_seed: tuple[float, ...]
    """Final valid rate of each seed."""
    over_start: Effect
    """Final valid rate minus that of the start policy."""
    over_stage_0: Effect
    """Final valid rate minus that of the stage 0 that the seed went on from."""
    against: dict[str, Effect]
    """Baseline -> difference of the final valid rates: the family of the round, with adjusted p-values."""
    failures: dict[FailureCategory, float]
    """Share of all answers of its final policies."""
    curve: EngineerResult
    """Valid rates on the validation set, as the figure of learning curves takes them."""
    conduct: Conduct


class Stratum(Frozen):
    """A part of the test, another rate on it, or the validation set. Exploratory: nothing is adjusted for."""

    name: str
    instances: int
    rates: dict[str, Rate]
    """`start`, `stage 0` or an arm -> rate."""
    against: dict[str, dict[str, Effect]]
    """Baseline -> arm -> difference."""


class RoundFindings(Frozen):
    """All numbers of a round."""

    number: int
    registered: str
    code: tuple[str, ...]
    seeds: tuple[int, ...]
    stage_0: Stage0
    instances: dict[str, int]
    """Set -> number of instances."""
    answers: int
    """That were judged."""
    seconds: float
    """Wall time of all its curricula with their stages 0, without the test."""
    shared: tuple[SharedPolicy, ...]
    arms: tuple[ArmFinding, ...]
    strata: tuple[Stratum, ...]
    pilot: PilotFinding
    configs: Correlations
    """Exploratory: which configs went with gains."""

    @property
    def comparisons(self) -> int:
        """Size of the family."""
        return sum(len(arm.against) for arm in self.arms)

    def arm(self, name: str) -> ArmFinding:
        """An arm by its name."""
        return next(arm for arm in self.arms if arm.arm == name)


def find(data: RoundData) -> RoundFindings:
    """All numbers of a round; DataError where an arm has fewer than two seeds, or too few in common with a baseline, or answers are missing."""
    stored = data.stored
    if few := [arm for arm in stored.arms if len(data.runs(arm)) < 2]:
        raise DataError(f"round {stored.round}: fewer than two curricula of {', '.join(few)}; finish the round")
    try:
        return RoundFindings(
            number=stored.round,
            registered=stored.registered,
            code=stored.code,
            seeds=stored.seeds,
            stage_0=stored.stage_0,
            instances={name: len(found) for name, found in data.instances.items()},
            answers=sum(len(found.valid) for found in data.outcomes.values()),
            seconds=total_seconds(stored.runs, stored.stage_0),
            shared=tuple(_shared(name, _shared_outcomes(data, stage)) for name, stage in START_AND_STAGE_0.items()),
            arms=tuple(_arms(data)),
            strata=tuple(_strata(data)),
            pilot=pilot_finding(stored.runs, stored.stage_0),
            configs=config_finding(stored.runs, stored.stage_0),
        )
    except KeyError as missing:
        raise DataError(f"round {stored.round}: there are no answers of {missing.args[0]}; take the files of one run") from None


def change(data: RoundData, arm: str, baseline: str, name: RateName = "valid", where: SetName = "test") -> np.ndarray:
    """Outcomes of an arm's final policies minus those of a baseline's, over the seeds of both: shape (seeds, instances), -1, 0 or 1."""
    ours, theirs = ({run.seed: row for run, row in zip(data.runs(one), data.final(one, name, where), strict=True)} for one in (arm, baseline))
    both = [seed for seed in ours if seed in theirs]
    if len(both) < 2:
        raise DataError(f"round {data.stored.round}: {arm} and {baseline} have {len(both)} seeds in common; finish at least two")
    return np.stack([ours[seed].astype(np.int8) - theirs[seed] for seed in both])


def pairs(arms: Iterable[str]) -> list[tuple[str, str]]:
    """The (arm, baseline) pairs of a family, in the order of the arms: every arm but the baselines against both, and random against fixed."""
    return [(arm, base) for arm in arms for base in BASELINES if arm not in BASELINES or (arm, base) == ("random", "fixed")]


def _arms(data: RoundData) -> list[ArmFinding]:
    tested = pairs(data.stored.arms)
    effects = dict(zip(tested, family([effect(change(data, *pair)) for pair in tested]), strict=True))
    return [_arm(data, arm, {base: found for (one, base), found in effects.items() if one == arm}) for arm in data.stored.arms]


def _arm(data: RoundData, arm: str, against: dict[str, Effect]) -> ArmFinding:
    runs, valid = data.runs(arm), data.final(arm, "valid")
    over = [effect(valid.astype(np.int8) - data.shared(arm, stage, "valid")) for stage in START_AND_STAGE_0.values()]
    first = runs[0].results
    return ArmFinding(
        arm=arm,
        seeds=tuple(run.seed for run in runs),
        valid=rate(valid),
        optimal=rate(data.final(arm, "optimal")),
        by_seed=tuple(valid.mean(axis=1).tolist()),
        over_start=over[0],
        over_stage_0=over[1],
        against=against,
        failures=_failures([data.after(run, run.results.final.stage, "test") for run in runs]),
        curve=EngineerResult(
            label=arm,
            designer=first.designer,
            variant=first.variant,
            seeds=tuple(run.seed for run in runs),
            valid_curve=tuple(map(rate, data.curve(arm, "valid"))),
        ),
        conduct=conduct(runs),
    )


def _shared_outcomes(data: RoundData, stage: int, where: SetName = "test") -> list[Outcomes]:
    """The start policy (-1), or the one stage 0, or that of each seed."""
    policies = dict.fromkeys(shared_policy(stage, data.stored.stage_0, seed) for seed in data.stored.seeds)
    return [data.outcomes[policy, stage, where] for policy in policies]


def _shared(name: str, found: list[Outcomes]) -> SharedPolicy:
    valid, optimal = (rate(np.stack([getattr(one, measured) for one in found])) for measured in ("valid", "optimal"))
    by_seed = tuple(float(one.valid.mean()) for one in found)
    return SharedPolicy(name=name, valid=valid, optimal=optimal, by_seed=by_seed, failures=_failures(found))


def _failures(found: list[Outcomes]) -> dict[FailureCategory, float]:
    categories = [verdict.category for one in found for verdict in one.verdicts]
    return {category: sum(one is category for one in categories) / len(categories) for category in FailureCategory}


def _strata(data: RoundData) -> list[Stratum]:
    test = data.instances["test"]
    parts = [(name, np.array(mask), "valid") for name, mask in _parts(test)]
    # One board has no interval.
    found = [_stratum(data, *part) for part in [*parts, (ALL_OPTIMAL, np.ones(len(test), dtype=bool), "optimal")] if part[1].sum() > 1]
    return [*found, _stratum(data, VALIDATION, np.ones(len(data.instances["validation"]), dtype=bool), "valid", "validation")]


def _parts(test: list[Instance]) -> Iterable[tuple[str, list[bool]]]:
    kinds = [(instance.problem.num_agents, instance.problem.size) for instance in test]
    for agents, size in sorted(set(kinds)):
        yield f"{agents} agents, {size}×{size}", [kind == (agents, size) for kind in kinds]
    for name, needed in (("a wait is needed", True), ("no wait is needed", False)):
        yield name, [instance.solution.wait_required is needed for instance in test]


def _stratum(data: RoundData, name: str, mask: np.ndarray, measured: RateName, where: SetName = "test") -> Stratum:
    shared = {one: np.stack([getattr(found, measured)[mask] for found in _shared_outcomes(data, stage, where)]) for one, stage in START_AND_STAGE_0.items()}
    finals = {arm: data.final(arm, measured, where)[:, mask] for arm in data.stored.arms}
    against: dict[str, dict[str, Effect]] = {base: {} for base in BASELINES}
    for arm, base in pairs(data.stored.arms):
        against[base][arm] = effect(change(data, arm, base, measured, where)[:, mask])
    return Stratum(name=name, instances=int(mask.sum()), rates={one: rate(outcomes) for one, outcomes in {**shared, **finals}.items()}, against=against)
