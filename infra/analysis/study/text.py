"""What a study found, in sentences and as the rows of tables. Rates in percent, differences in points."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from envgen.breakdown import Rate
from envgen.verifier import FailureCategory
from infra.analysis.comparison.pilot_gain import RankCorrelation
from infra.analysis.comparison.text import short_count
from infra.analysis.report.behaviour import UNDEFINED
from infra.analysis.report.text import SPACE, count, interval, label, percent, points, points_interval, signed
from infra.analysis.study.conduct import Correlations, Mean, StageConfig
from infra.analysis.study.effects import ALPHA, Effect
from infra.analysis.study.findings import VALIDATION, RoundFindings, SharedPolicy

Rows = list[tuple[str, ...]]


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; the first column is on the left, the others on the right."""
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def verdict(round_: RoundFindings, arm: str, baseline: str, alone: bool) -> str:
    """What the final valid rates of an arm and a baseline show, in one sentence.

    Of a comparison that is tested `alone` the interval decides; of one of a family the p-value after Holm.
    """
    found = round_.arm(arm).against[baseline]
    ours, theirs = (f"`{one}` ({percent(round_.arm(one).valid.value)})" for one in (arm, baseline))
    numbers = f"{points(found.value)}{SPACE}points, 95{SPACE}% interval {points_interval(found)}"
    adjusted = found.adjusted_p if found.adjusted_p is not None else found.p
    holm = "" if alone else f"; after adjustment for {round_.comparisons} comparisons p {p_value(adjusted, '= ')}"
    shown = found.sign if alone or adjusted <= ALPHA else 0
    side = {1: "above", -1: "below", 0: "not distinguishable from"}[shown]
    return f"{ours} is **{side}** {theirs}: {numbers}{holm}. {_visible(found)}"


def _visible(found: Effect) -> str:
    return f"The smallest difference visible here, at a nominal power of 80{SPACE}%, is {100 * found.detectable:.1f}{SPACE}points."


def p_value(value: float, equals: str = "") -> str:
    """`0.012`, `< 0.001`; `equals` stands before a number that is written out."""
    return f"{equals}{value:.3f}" if value >= 0.0005 else "< 0.001"


def round_headings(rounds: Sequence[RoundFindings]) -> list[str]:
    """The rounds."""
    return [f"round {one.number}" for one in rounds]


def overview_rows(
    rounds: Sequence[RoundFindings],
    primary: Mapping[int, str],
    models: Mapping[int, str],
    training: Mapping[int, Sequence[str]],
    changed: Mapping[int, Sequence[str]],
) -> Rows:
    """What each round consists of, a column a round; `primary`, `models`, `training` and `changed` by its number."""
    return [
        ("arms", *(", ".join(names(one)) for one in rounds)),
        ("primary arm", *(f"`{primary[one.number]}`" for one in rounds)),
        ("seeds", *(", ".join(map(str, one.seeds)) for one in rounds)),
        ("start policy", *(f"`{models[one.number]}`" for one in rounds)),
        ("stage 0", *("one for all seeds" if one.stage_0 == "one" else "one for each seed" for one in rounds)),
        ("training", *("; or ".join(training[one.number]) for one in rounds)),
        ("instead of the preset's", *(", ".join(changed[one.number]) or UNDEFINED for one in rounds)),
        ("answers judged", *(f"{one.answers:,}" for one in rounds)),
        ("made by version", *(", ".join(one.code) for one in rounds)),
    ]


def final_rows(found: RoundFindings) -> Rows:
    """Policy, seeds, valid, optimal, valid against the start policy and against stage 0, valid rate of each seed; valid on the validation set."""
    validation = next(one.rates for one in found.strata if one.name == VALIDATION)
    shared = [_shared_row(one, validation[one.name]) for one in found.shared]
    return shared + [
        (
            f"`{arm.arm}`",
            str(len(arm.seeds)),
            _rate(arm.valid),
            _rate(arm.optimal),
            _effect(arm.over_start),
            _effect(arm.over_stage_0),
            _of_seeds(arm.by_seed),
            _rate(validation[arm.arm]),
        )
        for arm in found.arms
    ]


def _shared_row(found: SharedPolicy, validation: Rate) -> tuple[str, ...]:
    seeds, each = (str(len(found.by_seed)), _of_seeds(found.by_seed)) if len(found.by_seed) > 1 else ("", "")
    return found.name, seeds, _rate(found.valid), _rate(found.optimal), "", "", each, _rate(validation)


def _of_seeds(rates: Iterable[float]) -> str:
    return ", ".join(f"{100 * value:.1f}" for value in rates)


def difference_rows(found: RoundFindings, baseline: str) -> Rows:
    """Arm, difference to a baseline, p, p after Holm, smallest visible difference, the same at the family's Bonferroni level."""
    effects = [(arm, found.arm(arm).against[baseline]) for arm in compared(found, baseline)]
    return [
        (f"`{arm}`", _effect(one), p_value(one.p), _defined(one.adjusted_p, p_value), _points(one.detectable), _defined(one.family_detectable, _points))
        for arm, one in effects
    ]


def stratum_rate_rows(found: RoundFindings) -> Rows:
    """Stratum, instances, rate of the shared policies and of each arm."""
    policies = [*(one.name for one in found.shared), *(arm.arm for arm in found.arms)]
    return [(one.name, str(one.instances), *(_rate(one.rates[policy]) for policy in policies)) for one in found.strata]


def stratum_difference_rows(found: RoundFindings, baseline: str) -> Rows:
    """Stratum, difference of each arm to a baseline, in the order of `compared`."""
    arms = compared(found, baseline)
    return [(one.name, *(_effect(one.against[baseline][arm]) for arm in arms)) for one in found.strata]


def names(found: RoundFindings) -> list[str]:
    """All arms, as headings."""
    return headings([arm.arm for arm in found.arms])


def headings(arms: Iterable[str]) -> list[str]:
    """Arms as headings."""
    return [f"`{arm}`" for arm in arms]


def compared(found: RoundFindings, baseline: str) -> list[str]:
    """The arms that are measured against a baseline."""
    return [arm.arm for arm in found.arms if baseline in arm.against]


def config_headings(found: RoundFindings) -> list[str]:
    """The stages after the shared one."""
    return [f"stage {stage}" for stage in range(1, len(found.arms[0].conduct.configs))]


def config_rows(found: RoundFindings) -> Rows:
    """Arm, then for each stage after the shared one: share of boards that need a wait, mean map size, hole ratio, number of different configs."""
    return [(f"`{arm.arm}`", *map(_config, arm.conduct.configs[1:])) for arm in found.arms]


def behaviour_rows(found: RoundFindings) -> Rows:
    """A row a measure, a column an arm."""
    all_of = [arm.conduct.behaviour for arm in found.arms]
    claims = [one.true_claims for one in all_of]
    return [
        ("proposals", *(str(one.proposals) for one in all_of)),
        ("edit of the shares, points over sizes", *(_mean(one.edit_shares) for one in all_of)),
        ("edit of the hole ratios, points over sizes", *(_mean(one.edit_holes) for one in all_of)),
        ("edit of the wait ratios, points over sizes", *(_mean(one.edit_waits) for one in all_of)),
        ("agreement with the failures, −1 to 1", *(_signed(one.agreement) for one in all_of)),
        ("edit taken back after a drop, −1 to 1", *(_signed(one.undone) for one in all_of)),
        (f"data on sizes under 5{SPACE}% valid", *(_percent(one.unsolved) for one in all_of)),
        (f"data on sizes over 95{SPACE}% valid", *(_percent(one.solved) for one in all_of)),
        # Rounds that ran before claims were checked have no such row.
        *([("claims of the rationale that are true", *map(_percent, claims))] if any(claims) else []),
        ("previous config kept, nothing usable", *(f"{one.kept} of {one.proposals}" for one in all_of)),
        ("changed to be legal", *(f"{one.projected} of {one.proposals}" for one in all_of)),
        ("answers of a model that could not be read", *(f"{one.unreadable} of {one.answers}" if one.answers else UNDEFINED for one in all_of)),
    ]


def cost_rows(found: RoundFindings, kinds: Sequence[str]) -> Rows:
    """Arm, tokens of a run by kind, hours of a run."""
    costs = [(arm.arm, arm.conduct) for arm in found.arms]
    return [(f"`{arm}`", *(short_count(one.tokens.get(kind, 0.0)) for kind in kinds), f"{one.seconds / 3600:.2f}") for arm, one in costs]


def total_sentence(found: RoundFindings) -> str:
    """What the whole round cost."""
    curricula = sum(len(arm.seeds) for arm in found.arms)
    tokens = sum(len(arm.seeds) * sum(arm.conduct.tokens.values()) for arm in found.arms)
    return f"All {curricula:,} curricula together: {short_count(tokens)} tokens, and with their stages 0 {found.seconds / 3600:.1f} hours."


def token_kinds(found: RoundFindings) -> list[str]:
    """The kinds of tokens that the runs of a round count, in order."""
    return list(dict.fromkeys(kind for arm in found.arms for kind in arm.conduct.tokens))


def failure_rows(found: RoundFindings) -> Rows:
    """Policy, share of valid answers and of each failure category in %."""
    policies = [(one.name, one.valid.value, one.failures) for one in found.shared]
    policies += [(f"`{arm.arm}`", arm.valid.value, arm.failures) for arm in found.arms]
    return [(name, f"{100 * valid:.1f}", *(f"{100 * shares[category]:.1f}" for category in FailureCategory)) for name, valid, shares in policies]


def token_headings(kinds: Sequence[str]) -> list[str]:
    """The kinds of tokens as headings."""
    return [f"tokens, {kind}" for kind in kinds]


def failure_names() -> list[str]:
    """The failure categories in words."""
    return [label(category) for category in FailureCategory]


def correlation_rows(found: Correlations, scores: Iterable[str]) -> Rows:
    """Stages, number of them, rank correlation of each score with the gain."""
    parts = [("all", found.pooled), *((f"stage {stage}", one) for stage, one in found.by_stage.items())]
    return [(name, str(one[0].stages), *(_rho(one, score) for score in scores)) for name, one in parts if one]


def steps_sentence(found: RoundFindings) -> str:
    """How many optimizer steps the curricula of a round made."""
    steps = sorted({number for arm in found.arms for number in arm.conduct.steps})
    if len(steps) == 1:
        return f"Every curriculum made {count(steps[0], 'optimizer step')}, stage 0 included."
    return f"**The curricula made different numbers of optimizer steps**: from {steps[0]:,} to {steps[-1]:,}, stage 0 included."


def missing_seeds(found: RoundFindings) -> list[str]:
    """Which arms lack which seeds, a sentence each."""
    lacks = {arm.arm: [str(seed) for seed in found.seeds if seed not in arm.seeds] for arm in found.arms}
    return [f"`{arm}` has no results of seed {', '.join(seeds)}; its differences are over the other seeds." for arm, seeds in lacks.items() if seeds]


def _defined(value: float | None, words: Callable[[float], str]) -> str:
    return UNDEFINED if value is None else words(value)


def _points(value: float) -> str:
    return f"{100 * value:.1f}"


def _rate(rate: Rate) -> str:
    return f"{100 * rate.value:.1f} {interval(rate)}"


def _config(config: StageConfig) -> str:
    return f"{percent(config.wait_ratio)}, {config.size:.1f}, {percent(config.hole_ratio)}, {config.different}"


def _effect(found: Effect) -> str:
    return f"{points(found.value)} {points_interval(found)}"


def _mean(mean: Mean | None) -> str:
    return UNDEFINED if mean is None else f"{100 * mean.value:.1f}"


def _percent(mean: Mean | None) -> str:
    return UNDEFINED if mean is None else percent(mean.value)


def _signed(mean: Mean | None) -> str:
    return UNDEFINED if mean is None else f"{signed(mean.value, 2)} (n{SPACE}={SPACE}{mean.count})"


def _rho(found: Sequence[RankCorrelation], score: str) -> str:
    chosen = [one for one in found if one.score == score]
    return f"{signed(chosen[0].value, 2)} [{signed(chosen[0].low, 2)},{SPACE}{signed(chosen[0].high, 2)}]" if chosen else UNDEFINED
