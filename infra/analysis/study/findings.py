"""The numbers of a round: rates on the test, differences between arms, strata; `engineers` has the others."""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product, takewhile

import numpy as np

from engineer.gate import BASE_POLICY
from envgen.breakdown import Rate
from envgen.errors import DataError
from envgen.frozen import Frozen
from envgen.suites import test_suite_of
from infra.analysis.gather import Finished, Runs, arm_result, change, differences, final
from infra.analysis.results import BASELINES, RATES, ArmResult, RateName, pairs
from infra.analysis.spec import Stage0
from infra.analysis.statistics import Effect, effect, family, rate
from infra.analysis.study.engineers import (
    Conduct,
    Correlations,
    conduct,
    config_finding,
    pilot_finding,
    total_seconds,
)
from infra.analysis.study.records import RoundData, SetName, StoredRound, StoredRun
from infra.runs.results import Made

BASE_AND_STAGE_0 = {"start": BASE_POLICY, "stage 0": 0}
"""The policies that all arms share, as tables name them."""
VALIDATION = "validation set"


class PolicyFinding(Frozen):
    """An arm of a round, or what all arms share: one policy, or one of each seed."""

    result: ArmResult
    """On the test; its curves are those on the validation set. Arms have the shared policies as baselines."""
    failures: dict[str, float]
    """Share of all answers of its final policies."""
    conduct: Conduct | None = None
    """What its engineer did; None for what arms share."""

    @property
    def name(self) -> str:
        """Its name in tables."""
        return f"`{self.result.label}`" if self.conduct else self.result.label


class Stratum(Frozen):
    """A part of the test, another rate on it, or the validation set. Exploratory: nothing is adjusted for."""

    name: str
    instances: int
    rates: dict[str, Rate]
    """`start`, `stage 0` or an arm -> rate."""
    against: dict[str, dict[str, Effect]]
    """Baseline -> arm -> difference."""


class Parting(Frozen):
    """How the curves of two arms part on the validation set. Exploratory: nothing is adjusted for."""

    arm: str
    minus: str
    measured: RateName
    stages: tuple[Effect, ...]
    """Differences after stage 1, 2, ...; stage 0 is shared."""

    @property
    def since(self) -> int | None:
        """The first stage from which on all intervals lie on the same side of zero; None if there is none."""
        last = self.stages[-1].sign if self.stages else 0
        alike = list(takewhile(lambda one: last and one.sign == last, reversed(self.stages)))
        return len(self.stages) - len(alike) + 1 if alike else None


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
    made: Made = Made()
    """When and on what its curricula were trained, as far as they say so."""
    shared: tuple[PolicyFinding, ...]
    arms: tuple[PolicyFinding, ...]
    against: dict[str, dict[str, Effect]]
    """Baseline -> arm -> difference of the final valid rates, all with adjusted p-values."""
    strata: tuple[Stratum, ...]
    partings: tuple[Parting, ...]
    pilot: Correlations
    configs: Correlations
    """Exploratory: which configs went with gains."""

    @property
    def comparisons(self) -> int:
        """Size of the family."""
        return sum(map(len, self.against.values()))

    @property
    def conducts(self) -> list[Conduct]:
        """What the engineers of the arms did."""
        return [arm.conduct for arm in self.arms if arm.conduct]

    @property
    def validation(self) -> Stratum:
        """The rates on the validation set."""
        return self.strata[-1]

    @property
    def token_kinds(self) -> list[str]:
        """The kinds of tokens that its curricula count, in order."""
        return list(dict.fromkeys(kind for arm in self.arms for kind in arm.result.tokens))

    @property
    def tokens(self) -> float:
        """Of all its curricula together."""
        return sum(len(arm.result.seeds) * sum(arm.result.tokens.values()) for arm in self.arms)

    @property
    def curricula(self) -> int:
        """How many finished."""
        return sum(len(arm.result.seeds) for arm in self.arms)

    def parted(self, minus: str, measured: RateName) -> list[Parting]:
        """How the curves of the arms part from that of a baseline."""
        return [one for one in self.partings if (one.minus, one.measured) == (minus, measured)]

    def arm(self, name: str) -> PolicyFinding:
        """An arm by its name."""
        return next(arm for arm in self.arms if arm.result.label == name)


def find(data: RoundData) -> RoundFindings:
    """All numbers of a round; DataError where an arm has fewer than two seeds, or answers are missing."""
    stored = data.stored
    if few := [arm for arm in stored.arms if len(data.runs(arm)) < 2]:
        raise DataError(
            f"round {stored.round}: fewer than two curricula of {', '.join(few)}, too few for an interval;"
            " run more of its seeds"
        )
    try:
        tested = policies(data, "test")
        return RoundFindings(
            number=stored.round,
            registered=stored.registered,
            code=stored.code,
            seeds=stored.seeds,
            stage_0=stored.stage_0,
            instances={name: len(found) for name, found in data.instances.items()},
            answers=sum(len(found["valid"]) for found in data.outcomes.values()),
            seconds=total_seconds(stored.runs, stored.stage_0),
            made=_made(stored),
            shared=tuple(_policy(data, name, tested) for name in BASE_AND_STAGE_0),
            arms=tuple(_policy(data, name, tested) for name in stored.arms),
            against=_family(data, tested),
            strata=tuple(_strata(data, tested)),
            partings=tuple(_partings(data, tested)),
            pilot=pilot_finding(stored.runs, stored.stage_0),
            configs=config_finding(stored.runs, stored.stage_0, data.family),
        )
    except KeyError as missing:
        lacking = f"round {stored.round}: there are no answers of {missing.args[0]}"
        raise DataError(f"{lacking}; take the files of one run") from None


def _made(stored: StoredRound) -> Made:
    """What the stages behind stage 0 took; the questions after stage 0 are asked for each curriculum."""
    runs = [[stage.made for stage in run.results.stages] for run in stored.runs]
    behind = Made.together(made for stages in runs for made in stages[1:])
    return behind.model_copy(update={"cost": Made.together(made for stages in runs for made in stages).cost})


def policies(data: RoundData, where: SetName) -> dict[str, Runs]:
    """`start`, `stage 0` and every arm -> seed -> its curriculum, the final policy judged on a set."""
    every = dict[str, Runs]()
    for name, stage in BASE_AND_STAGE_0.items():
        every[name] = {run.seed: _run(data, run, where, stage) for run in _firsts(data)}
    for arm in data.stored.arms:
        every[arm] = {run.seed: _run(data, run, where) for run in data.runs(arm)}
    return every


def _run(data: RoundData, run: StoredRun, where: SetName, last: int | None = None) -> Finished:
    """A curriculum, up to the stage `last` if given."""
    end = run.results.final.stage if last is None else last
    stages = range(BASE_POLICY, len(run.results.stages) if last is None else last + 1)
    curve = [data.after(run, stage, "validation") for stage in stages]
    return Finished(
        outcomes={name: np.stack([one[name] for one in curve]) for name in RATES},
        final=end,
        tokens=run.tokens,
        seconds=run.seconds,
        judged=data.after(run, end, where),
    )


def _once(data: RoundData, name: str, runs: Runs) -> Runs:
    """A policy that all seeds share counts once."""
    one = name == "start" or (name in BASE_AND_STAGE_0 and data.stored.stage_0 == "one")
    return dict(list(runs.items())[:1]) if one else runs


def _policy(data: RoundData, name: str, tested: Mapping[str, Runs]) -> PolicyFinding:
    runs = _once(data, name, tested[name])
    categories = [category for run in runs.values() for category in run.end("category")]
    counts = Counter(categories)
    failures = {category: counts[category] / len(categories) for category in data.family.space.categories}
    if name in BASE_AND_STAGE_0:
        return PolicyFinding(result=arm_result(name, runs, {}), failures=failures)
    curricula = data.runs(name)
    said = curricula[0].results.engineer, curricula[0].results.variant
    result = arm_result(name, runs, {base: tested[base] for base in BASE_AND_STAGE_0}, *said)
    return PolicyFinding(result=result, failures=failures, conduct=conduct(curricula, data.family))


def _firsts(data: RoundData) -> list[StoredRun]:
    """A run of each seed, in the order of the seeds."""
    found = {run.seed: run for run in data.stored.runs}
    return [found[seed] for seed in data.stored.seeds if seed in found]


def _family(data: RoundData, tested: Mapping[str, Runs]) -> dict[str, dict[str, Effect]]:
    tests = pairs(data.stored.arms)
    for arm, base in tests:
        if (both := len(tested[arm].keys() & tested[base].keys())) < 2:
            words = f"round {data.stored.round}: {arm} and {base} have {both} seeds in common"
            raise DataError(f"{words}; finish at least two")
    effects = family([effect(change(tested[arm], tested[base], "valid")) for arm, base in tests])
    return _by_baseline(dict(zip(tests, effects, strict=True)))


def _partings(data: RoundData, judged: Mapping[str, Runs]) -> Iterator[Parting]:
    shortest = min(len(run.outcomes["valid"]) for arm in data.stored.arms for run in judged[arm].values())
    for (arm, base), measured in product(pairs(data.stored.arms), RATES):
        # Behind the base policy and stage 0, which both share.
        redesigned = partial(_curve, measured=measured, stages=slice(2, shortest))
        change = differences(judged[arm], judged[base], redesigned)
        yield Parting(
            arm=arm, minus=base, measured=measured, stages=tuple(map(effect, change.swapaxes(0, 1)))
        )


def _curve(run: Finished, measured: RateName, stages: slice) -> np.ndarray:
    return run.outcomes[measured][stages]


def _by_baseline(effects: Mapping[tuple[str, str], Effect]) -> dict[str, dict[str, Effect]]:
    of_base = {
        base: {arm: one for (arm, other), one in effects.items() if other == base} for base in BASELINES
    }
    return {base: found for base, found in of_base.items() if found}


def _strata(data: RoundData, tested: Mapping[str, Runs]) -> list[Stratum]:
    test, suite = data.instances["test"], test_suite_of(data.family)
    parts: list[tuple[str, list[bool], RateName]] = [(*part, "valid") for part in suite.parts(test)]
    parts.append((f"all {suite.noun}, optimal plans", [True] * len(test), "optimal"))
    # One instance has no interval.
    found = [
        _stratum(data, tested, name, np.array(mask), rates) for name, mask, rates in parts if sum(mask) > 1
    ]
    everything = np.ones(len(data.instances["validation"]), dtype=bool)
    return [*found, _stratum(data, policies(data, "validation"), VALIDATION, everything, "valid")]


def _stratum(
    data: RoundData, judged: Mapping[str, Runs], name: str, mask: np.ndarray, measured: RateName
) -> Stratum:
    tests = pairs(data.stored.arms)
    effects = {
        (arm, base): effect(change(judged[arm], judged[base], measured)[:, mask]) for arm, base in tests
    }
    return Stratum(
        name=name,
        instances=int(mask.sum()),
        rates={one: rate(final(_once(data, one, runs), measured)[:, mask]) for one, runs in judged.items()},
        against=_by_baseline(effects),
    )
