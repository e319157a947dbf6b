"""What a study found, in sentences and as the rows of tables. Rates in percent, differences in points."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from envgen.mapf.verifier import FailureCategory
from infra.analysis.correlation import RankCorrelation
from infra.analysis.formats import (
    POINTS,
    SPACE,
    UNDEFINED,
    count,
    p_value,
    percent,
    points,
    points_interval,
    rate_text,
    short_count,
    signed,
)
from infra.analysis.formats import difference_text as difference
from infra.analysis.results import ArmResult
from infra.analysis.statistics import ALPHA
from infra.analysis.study.conduct import Conduct, Correlations, Mean, StageConfig
from infra.analysis.study.findings import VALIDATION, PolicyFinding, RoundFindings

Rows = list[tuple[str, ...]]


def verdict(found: RoundFindings, arm: str, baseline: str, alone: bool) -> str:
    """What the final valid rates of an arm and a baseline show, in one sentence.

    Of a comparison that is tested `alone` the interval decides; of one of a family the p-value after Holm.
    """
    one = found.against[baseline][arm]
    rates = [found.arm(name).result.valid for name in (arm, baseline)]
    ours, theirs = (
        f"`{name}` ({percent(rate.value)})" for name, rate in zip((arm, baseline), rates, strict=True) if rate
    )
    numbers = f"{points(one.value)}{POINTS}, 95{SPACE}% interval {points_interval(one)}"
    adjusted = one.p if one.adjusted_p is None else one.adjusted_p
    holm = f"; after adjustment for {found.comparisons} comparisons p {p_value(adjusted, '= ')}"
    shown = one.sign if alone or adjusted <= ALPHA else 0
    side = {1: "above", -1: "below", 0: "not distinguishable from"}[shown]
    visible = f"at a nominal power of 80{SPACE}%, is {100 * one.detectable:.1f}{POINTS}"
    said = f"{ours} is **{side}** {theirs}: {numbers}{'' if alone else holm}."
    return f"{said} The smallest difference visible here, {visible}."


def overview_rows(rounds: Sequence[RoundFindings], said: Mapping[int, Mapping[str, str]]) -> Rows:
    """What each round consists of, a column a round.

    `said` of its number has what its spec says, by the name of the row.
    """
    facts = [
        {
            "arms": ", ".join(names(one)),
            "seeds": ", ".join(map(str, one.seeds)),
            "stage 0": "one for all seeds" if one.stage_0 == "one" else "one for each seed",
            "answers judged": f"{one.answers:,}",
            "made by version": ", ".join(one.code),
            **said[one.number],
        }
        for one in rounds
    ]
    shown = ("arms", "primary arm", "seeds", "base policy", "stage 0", "training", "instead of the preset's")
    return [(name, *(fact[name] for fact in facts)) for name in (*shown, "answers judged", "made by version")]


def final_rows(found: RoundFindings) -> Rows:
    """Policy, seeds, valid, optimal, valid against base policy and stage 0 and of each seed; validation."""
    validation = next(one.rates for one in found.strata if one.name == VALIDATION)
    return [
        (*_final_row(one.result, quoted=one.conduct is not None), rate_text(validation[one.result.label], ""))
        for one in (*found.shared, *found.arms)
    ]


def _final_row(found: ArmResult, quoted: bool) -> tuple[str, ...]:
    several = len(found.seeds) > 1
    each = ", ".join(f"{100 * value:.1f}" for value in found.final_by_seed.values())
    return (
        f"`{found.label}`" if quoted else found.label,
        str(len(found.seeds)) if several else "",
        *(rate_text(rate, "") for rate in (found.valid, found.optimal) if rate),
        *(difference(found.against[base].valid, "") if quoted else "" for base in ("start", "stage 0")),
        each if several else "",
    )


def difference_rows(found: RoundFindings, baseline: str) -> Rows:
    """Arm, difference to a baseline, p, p after Holm, smallest visible difference, that of the family."""
    return [
        (
            f"`{arm}`",
            difference(one, ""),
            p_value(one.p),
            _defined(one.adjusted_p, p_value),
            _hundred(one.detectable),
            _defined(one.family_detectable, _hundred),
        )
        for arm, one in found.against[baseline].items()
    ]


def stratum_rate_rows(found: RoundFindings) -> Rows:
    """Stratum, instances, rate of the shared policies and of each arm."""
    return [
        (one.name, str(one.instances), *(rate_text(rate, "") for rate in one.rates.values()))
        for one in found.strata
    ]


def stratum_difference_rows(found: RoundFindings, baseline: str) -> Rows:
    """Stratum, difference of each arm to a baseline."""
    return [
        (one.name, *(difference(effect, "") for effect in one.against[baseline].values()))
        for one in found.strata
    ]


def names(found: RoundFindings) -> list[str]:
    """All arms, as headings."""
    return headings(arm.result.label for arm in found.arms)


def headings(arms: Iterable[str]) -> list[str]:
    """Arms as headings."""
    return [f"`{arm}`" for arm in arms]


def config_rows(found: RoundFindings) -> Rows:
    """Arm, then of each stage after stage 0: share of boards that need a wait, map size, holes, configs."""
    return [(f"`{one.label}`", *map(_config, conduct.configs[1:])) for one, conduct in conducts(found.arms)]


def conducts(arms: Iterable[PolicyFinding]) -> list[tuple[ArmResult, Conduct]]:
    """Results of arms, and what their engineers did."""
    return [(arm.result, arm.conduct) for arm in arms if arm.conduct]


def behaviour_rows(found: RoundFindings) -> Rows:
    """A row a measure, a column an arm."""
    behaviours = [conduct.behaviour for _, conduct in conducts(found.arms)]
    measured = (
        ("edit of the shares, points over sizes", "edit_shares", _hundred),
        ("edit of the hole ratios, points over sizes", "edit_holes", _hundred),
        ("edit of the wait ratios, points over sizes", "edit_waits", _hundred),
        ("agreement with the failures, −1 to 1", "agreement", None),
        ("edit taken back after a drop, −1 to 1", "undone", None),
        (f"data on sizes under 5{SPACE}% valid", "unsolved", percent),
        (f"data on sizes over 95{SPACE}% valid", "solved", percent),
        ("claims of the rationale that are true", "true_claims", percent),
    )
    # Rounds that ran before claims were checked have no such row.
    claims = any(one.means["true_claims"] for one in behaviours)
    shown = measured if claims else measured[:-1]
    asked = (f"{one.unreadable} of {one.answers}" if one.answers else UNDEFINED for one in behaviours)
    return [
        ("proposals", *(str(one.proposals) for one in behaviours)),
        *((words, *(_mean(one.means[name], form) for one in behaviours)) for words, name, form in shown),
        ("previous config kept, nothing usable", *(f"{one.kept} of {one.proposals}" for one in behaviours)),
        ("changed to be legal", *(f"{one.projected} of {one.proposals}" for one in behaviours)),
        ("answers of a model that could not be read", *asked),
    ]


def cost_rows(found: RoundFindings, kinds: Sequence[str]) -> Rows:
    """Arm, tokens of a run by kind, hours of a run."""
    results = [arm.result for arm in found.arms]
    return [
        (
            f"`{one.label}`",
            *(short_count(one.tokens.get(kind, 0.0)) for kind in kinds),
            f"{(one.seconds or 0) / 3600:.2f}",
        )
        for one in results
    ]


def total_sentence(found: RoundFindings) -> str:
    """What the whole round cost."""
    results = [arm.result for arm in found.arms]
    tokens = short_count(sum(len(one.seeds) * sum(one.tokens.values()) for one in results))
    curricula = sum(len(one.seeds) for one in results)
    hours = f"{found.seconds / 3600:.1f} hours"
    return f"All {curricula:,} curricula together: {tokens} tokens, and with their stages 0 {hours}."


def token_kinds(found: RoundFindings) -> list[str]:
    """The kinds of tokens that the runs of a round count, in order."""
    return list(dict.fromkeys(kind for arm in found.arms for kind in arm.result.tokens))


def failure_rows(found: RoundFindings) -> Rows:
    """Policy, share of valid answers and of each failure category in %."""
    rows = []
    for one in (*found.shared, *found.arms):
        shares = [
            one.result.valid.value if one.result.valid else 0.0,
            *map(one.failures.__getitem__, FailureCategory),
        ]
        rows.append((f"`{one.result.label}`" if one.conduct else one.result.label, *map(_hundred, shares)))
    return rows


def correlation_rows(found: Correlations, scores: Iterable[str]) -> Rows:
    """Stages, number of them, rank correlation of each score with the gain."""
    parts = [("all", found.pooled), *((f"stage {stage}", one) for stage, one in found.by_stage.items())]
    return [(name, str(one[0].stages), *(_rho(one, score) for score in scores)) for name, one in parts if one]


def steps_sentence(found: RoundFindings) -> str:
    """How many optimizer steps the curricula of a round made."""
    steps = sorted({number for _, conduct in conducts(found.arms) for number in conduct.steps})
    if len(steps) == 1:
        return f"Every curriculum made {count(steps[0], 'optimizer step')}, stage 0 included."
    different = f"from {steps[0]:,} to {steps[-1]:,}, stage 0 included"
    return f"**The curricula made different numbers of optimizer steps**: {different}."


def missing_seeds(found: RoundFindings) -> list[str]:
    """Which arms lack which seeds, a sentence each."""
    lacks = {
        arm.result.label: [str(seed) for seed in found.seeds if seed not in arm.result.seeds]
        for arm in found.arms
    }
    return [
        f"`{arm}` has no results of seed {', '.join(seeds)}; its differences are over the other seeds."
        for arm, seeds in lacks.items()
        if seeds
    ]


def _hundred(value: float) -> str:
    return f"{100 * value:.1f}"


def _defined(value: float | None, words: Callable[[float], str]) -> str:
    return UNDEFINED if value is None else words(value)


def _config(config: StageConfig) -> str:
    return (
        f"{percent(config.wait_ratio)}, {config.size:.1f}, {percent(config.hole_ratio)}, {config.different}"
    )


def _mean(mean: Mean | None, form: Callable[[float], str] | None) -> str:
    """A mean in a form, or for none its value from -1 to 1 with the number of proposals behind it."""
    if mean is None:
        return UNDEFINED
    return form(mean.value) if form else f"{signed(mean.value, 2)} (n{SPACE}={SPACE}{mean.count})"


def _rho(found: Sequence[RankCorrelation], score: str) -> str:
    for one in found:
        if one.score == score:
            return f"{signed(one.value, 2)} [{signed(one.low, 2)},{SPACE}{signed(one.high, 2)}]"
    return UNDEFINED
