"""The tables of runs and comparisons as data frames; pages, terminal and Prefect show these.

Cells are a `Rate` or a `Difference` with its interval, a `Change`, a text, or None where nothing is known."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from envgen.breakdown import Counts
from envgen.config import SHARE, EnvConfig, Part
from envgen.estimates import Rate
from envgen.space import Space
from infra.comparison.results import ArmResult, ComparisonResults, Figure
from infra.formats import duration, figure_names, label, listed, rate_names, share, short_count
from infra.results import CurriculumResults, Made

BASE = "base policy"
ON_TEST = ", test set"
"""End of the first cell of a row with rates on the test set."""


def rates(results: CurriculumResults, best: str | None) -> pd.DataFrame:
    """Return each rate of the base policy and after each stage, and its change since the base policy; in rows
    below, pass@k and the rates on the test set. `best`: the word for optimal answers, None without any."""
    words = rate_names(best)
    rows: list[list[Any]] = []
    for stage in (None, *results.stages):
        policy = f"after stage {stage.stage}" if stage else BASE
        validation, test = (stage.breakdown, stage.test) if stage else (results.start, results.test_start)
        for name, part, gains in ((policy, validation, stage), (f"{policy}{ON_TEST}", test, None)):
            if part is None:
                continue
            row, overall = [name], part.overall
            for rate in words:
                row += [getattr(overall, f"{rate}_rate"), getattr(gains, f"{rate}_gain", None)]
            rows.append(row)
            if overall.pass_rate:
                rows.append([f"{name}, pass@{overall.samples}", overall.pass_rate, *[None] * len(row[2:])])
    columns = [column for word in words.values() for column in (word, f"change of {word}, points")]
    return frame(["policy", *columns], rows)


def strata(space: Space, results: CurriculumResults) -> pd.DataFrame:
    """Return each rate that is known of a stratum: of the base policy and after each stage."""
    rows = []
    for stratum in results.start.strata:
        parts = [breakdown.strata.get(stratum) for breakdown in results.breakdowns]
        for name, rate in _stratum_rates(space).items():
            cells = [part and rate(part) for part in parts]
            rows += [[space.label(stratum), name, *cells]] if any(cells) else []
    return frame([space.noun, "rate", *_policies(results)], rows)


def failures(space: Space, results: CurriculumResults) -> pd.DataFrame:
    """Return the share of answers per failure category, and of answers that were cut off, if any were."""
    parts = [breakdown.overall for breakdown in results.breakdowns]
    rows = [
        [label(name), *(part.share(part.failures.get(name, 0)) for part in parts)]
        for name in space.categories
    ]
    if any(part.truncated for part in parts):
        cut_off = [None if part.truncated is None else part.share(part.truncated) for part in parts]
        rows.append(["cut off at the token limit, valid or not", *cut_off])
    return frame(["category", *_policies(results)], rows)


def configs(space: Space, results: CurriculumResults) -> pd.DataFrame:
    """Return the config of each stage and the last proposal as cells of `Part`, None without data."""
    stages = [*(stage.config for stage in results.stages), results.stages[-1].proposal.config]
    rows = []
    for name in named_strata(space, stages):
        parts = (config.strata.get(name) for config in stages)
        rows.append([space.label(name), *(part if part and part.data_ratio else None for part in parts)])
    return frame([space.noun, *_policies(results)[1:], "proposed, not run"], rows)


def _policies(results: CurriculumResults) -> list[str]:
    return ["start", *(f"stage {stage.stage}" for stage in results.stages)]


def _stratum_rates(space: Space) -> dict[str, Callable[[Counts], Rate | None]]:
    """Return how each rate of a stratum is counted, by its name in words."""
    counted: dict[str, Callable[[Counts], Rate | None]] = {
        word: lambda part, name=f"{rate}_rate": getattr(part, name)
        for rate, word in rate_names(space.best).items()
    }
    for asked in (knob.label for knob in space.asked if knob.label):
        for place, words in enumerate((asked.present, asked.absent)):
            counted[f"valid {words}"] = partial(_split_rate, asked.name, place)
    return counted | {label(term): lambda part, name=term: part.term_rate(name) for term in space.terms}


def _split_rate(label: str, place: int, part: Counts) -> Rate | None:
    """Return the valid rate of the instances with a label (place 0) or without it (place 1)."""
    parts = part.split(label)
    return parts and parts[place].valid_rate


def overview(results: ComparisonResults) -> pd.DataFrame:
    """Return a row for each arm: valid rate on the test set at the end, differences, designs used."""
    used = pd.Series([designs(arm) for arm in results.arms], dtype=object)
    return arms(results, "valid").assign(**{"designs used": used})


def designs(arm: ArmResult) -> str | None:
    """Return how many of an arm's designs were used, `4 of 6`; None before a run has finished."""
    return f"{arm.designs_used} of {arm.designs_asked}" if arm.seeds else None


def arms(results: ComparisonResults, figure: Figure) -> pd.DataFrame:
    """Return a row for each arm: its seeds, a figure, and the differences to the baselines."""
    troubled = {child.arm for child in results.troubled}
    whole = {seed for arm in results.arms for seed in arm.seeds}
    against, rows = results.differences(figure), []
    for arm in results.arms:
        seeds = f"{len(arm.seeds)} of {len(results.file.seeds)}{'!' if arm.label in troubled else ''}"
        if arm.seeds and {*arm.seeds} != whole:
            seeds += f" (only {listed(list(map(str, arm.seeds)))})"
        paired = [{*pair.seeds} for pair in results.pairs if pair.arm == arm.label and pair.minus in against]
        if any(pair != {*arm.seeds} for pair in paired):
            seeds += f" (differences: {listed(sorted(map(str, set.intersection(*paired))))})"
        effects = [of_base.get(arm.label) for of_base in against.values()]
        rows.append([arm.label, seeds, arm.rates.get(figure), *effects])
    word = figure_names(results.best).get(figure, figure)
    return frame(["arm", "seeds", word, *(f"minus {base}" for base in against)], rows)


def costs(results: ComparisonResults) -> pd.DataFrame:
    """Return a row for each arm with what a run has spent, mean over seeds, and what came of it."""
    rows = []
    for arm in results.arms:
        spent = arm.spent
        numbers = spent and [
            short_count(spent.training_tokens),
            duration(spent.training_seconds),
            "unknown" if spent.engineer_tokens is None else short_count(spent.engineer_tokens),
            duration(spent.engineer_seconds),
            share(arm.no_signal or 0.0),
            arm.undone,
        ]
        rows.append([arm.label, designs(arm), *(numbers or [None] * 6), arm.speed and str(arm.speed)])
    columns = ["training tokens", "training time", "engineer tokens", "engineer time"]
    columns += ["groups without signal", "stages undone"]
    columns += [f"tokens to match {base}" for base in results.file.baseline_arms[:1]]
    return frame(["arm", "designs used", *columns], [row[: len(columns) + 2] for row in rows])


def strata_of_arms(results: ComparisonResults) -> pd.DataFrame:
    """Return the valid rate on the test set at the end: a row for each stratum, a column for each arm."""
    finished = [arm for arm in results.arms if arm.strata]
    rows = [[word, *(arm.strata.get(name) for arm in finished)] for name, word in results.strata.items()]
    return frame(["stratum", *(arm.label for arm in finished)], rows)


def configs_of_arms(results: ComparisonResults) -> pd.DataFrame:
    """Return share of the data and knobs of each stratum, mean over seeds: a row for each arm and stage."""
    rows = [
        [arm.label, f"stage {number}", *(_config_cell(stage.get(name)) for name in results.strata)]
        for arm in results.arms
        for number, stage in enumerate(arm.configs)
    ]
    return frame(["arm", "stage", *results.strata.values()], rows)


def _config_cell(numbers: dict[str, float] | None) -> str | None:
    if numbers is None:
        return None
    knobs = {label(name.removesuffix("_ratio")): value for name, value in numbers.items() if name != SHARE}
    return "; ".join([share(numbers[SHARE]), *(f"{name} {value:.3g}" for name, value in knobs.items())])


def pairs(results: ComparisonResults) -> pd.DataFrame:
    """Return the differences of arms that are no baseline to each other in valid rate on the test set."""
    others = [pair for pair in results.pairs if pair.minus not in results.file.baseline_arms]
    rows = [[pair.arm, pair.minus, len(pair.seeds), pair.differences["valid"]] for pair in others]
    return frame(["arm", "minus", "seeds", "difference, points"], rows)


def provenance(made: Made) -> dict[str, str]:
    """Return when, in how long and on what results were made, by name; what is not known is left out."""
    facts = {
        "Finished": made.finished.replace("T", " ").replace("+00:00", " UTC"),
        "Time of the steps": duration(made.seconds) if made.seconds else "",
        "Tokens": short_count(made.tokens) if made.tokens else "",
        "Version": listed(made.code),
        "Machine": listed(made.machines),
    }
    return {name: value for name, value in facts.items() if value}


class Change(NamedTuple):
    """A number of a stratum in two configs, as it is written; None where a config has no such number."""

    old: str | None
    new: str | None

    @property
    def changed(self) -> bool:
        """Whether the written numbers differ."""
        return self.old != self.new

    @property
    def text(self) -> str:
        """`30 %`, or `30 % → 35 %` if it changed."""
        return f"{self.old or 'none'} → {self.new or 'none'}" if self.changed else self.new or "none"


def changes(space: Space, old: EnvConfig, new: EnvConfig) -> pd.DataFrame:
    """Return the numbers of each stratum in two configs, as cells of `Change`."""
    names, rows = [SHARE, *(knob.name for knob in space.knobs)], []
    for stratum in named_strata(space, (old, new)):
        before, after = (numbers(space, config.strata.get(stratum)) for config in (old, new))
        rows.append([space.label(stratum), *(Change(before.get(n), after.get(n)) for n in names)])
    return frame([space.noun, "data", *(knob.word for knob in space.knobs)], rows)


def numbers(space: Space, part: Part | None) -> dict[str, str]:
    """Return the numbers of a stratum by name, as they are written: `12.5 %`, or `3` for a knob that is no
    share; empty for None."""
    if part is None:
        return {}
    texts = {SHARE: share(part.data_ratio)}
    for knob in space.knobs:
        if (value := part.get(knob.name)) is not None:
            texts[knob.name] = share(value) if knob.low >= 0 and knob.high <= 1 else f"{value:g}"
    return texts


def knobs_changed(old: EnvConfig, new: EnvConfig) -> bool:
    """Return whether a knob of a stratum that both configs name differs."""
    both = old.strata.keys() & new.strata.keys()
    return any(old.strata[name].knobs != new.strata[name].knobs for name in both)


def named_strata(space: Space, configs: Iterable[EnvConfig]) -> list[str]:
    """Return the strata that configs name, in the order of the space, then those that it does not have."""
    named = dict.fromkeys(name for config in configs for name in config.strata)
    return [name for name in space.names if name in named] + [n for n in named if n not in space.names]


def frame(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> pd.DataFrame:
    """Return a table whose cells stay as they are."""
    return pd.DataFrame(list(rows), columns=list(columns), dtype=object)
