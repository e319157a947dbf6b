"""The tables of runs and comparisons as data frames; pages, terminal and Prefect show these.

Cells are a `Rate` or a `Difference` with its interval, a `Change`, a text, or None where nothing is known."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from envgen.breakdown import Counts, Rate, wilson
from envgen.config import SHARE, EnvConfig
from envgen.space import Knob, Space
from infra.analysis.results import RATES, ComparisonResults, Pair
from infra.formats import (
    duration,
    label,
    listed,
    rate_names,
    share,
    short_count,
)
from infra.results import CurriculumResults, Made

BASE = "base policy"
ON_TEST = ", test set"
"""End of the first cell of a row with rates on the test set."""


def rates(results: CurriculumResults, best: str | None) -> pd.DataFrame:
    """Return each rate of the base policy and after each stage, and its change since the base policy; where
    there is a test set, the rates on it in a row below.

    `best` is the environment's word for optimal answers, None without any."""
    words = rate_names(best)
    rows: list[list[Any]] = []
    for stage in (None, *results.stages):
        policy = f"after stage {stage.stage}" if stage else BASE
        validation, test = (stage.breakdown, stage.test) if stage else (results.start, results.test_start)
        row, below = [policy], [f"{policy}{ON_TEST}"]
        for name in words:
            row += [getattr(validation.overall, f"{name}_rate"), getattr(stage, f"{name}_gain", None)]
            below += [getattr(test.overall, f"{name}_rate"), None] if test else []
        rows += [row, below] if test else [row]
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
    """Return the share of answers per failure category: of the base policy and after each stage."""
    parts = [breakdown.overall for breakdown in results.breakdowns]
    rows = [
        [label(name), *(wilson(part.failures.get(name, 0), part.n) for part in parts)]
        for name in space.categories
    ]
    return frame(["category", *_policies(results)], rows)


class Mix(NamedTuple):
    """A stratum in the config of a stage: its share of the data, and its knobs as they are written."""

    share: float
    knobs: tuple[str, ...]


def configs(space: Space, results: CurriculumResults) -> pd.DataFrame:
    """Return the config of each stage and the last proposal as cells of `Mix`, None without data."""
    stages = [*(stage.config for stage in results.stages), results.stages[-1].proposal.config]
    rows = [
        [space.label(name), *(_mix(space, config, name) for config in stages)]
        for name in named_strata(space, stages)
    ]
    return frame([space.noun, *_policies(results)[1:], "proposed, not run"], rows)


def _mix(space: Space, config: EnvConfig, stratum: str) -> Mix | None:
    part = config.strata.get(stratum)
    if part is None or not part.data_ratio:
        return None
    knobs = [(knob, part.get(knob.name)) for knob in space.knobs]
    return Mix(
        part.data_ratio,
        tuple(f"{knob.word} {setting(knob, value)}" for knob, value in knobs if value is not None),
    )


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


def arms(results: ComparisonResults) -> pd.DataFrame:
    """Return a row for each arm and rate of a comparison, with its differences to the baselines.

    Tokens and time stand in the row of the valid rate."""
    words = rate_names(results.best)
    failed, bases, rows = {child.arm for child in results.failed}, list(results.differences("valid")), []
    for arm in results.arms:
        seeds = f"{len(arm.seeds)}/{len(results.seeds)}{'!' if arm.label in failed else ''}"
        tokens = None if arm.tokens is None else short_count(arm.tokens)
        spent = [tokens, None if arm.seconds is None else duration(arm.seconds)]
        for name in filter(words.get, RATES):
            effects = results.differences(name).values()
            numbers = [getattr(arm, name), *(of_base.get(arm.label) for of_base in effects)]
            rows.append(
                [arm.label, seeds, words[name], *numbers, *(spent if name == "valid" else (None, None))]
            )
    columns = ["at the end", *(f"against {base}" for base in bases), "tokens", "time"]
    return frame(["engineer variant", "seeds", "rate", *columns], rows)


def pairs(results: Iterable[Pair]) -> pd.DataFrame:
    """Return the differences of arms to each other."""
    rows = [[pair.arm, pair.minus, pair.valid.seeds, pair.valid] for pair in results]
    return frame(["engineer variant", "minus", "seeds", "difference, points"], rows)


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
    knobs: dict[str, Knob | None] = {SHARE: None, **{knob.name: knob for knob in space.knobs}}

    def written(config: EnvConfig, stratum: str, number: str) -> str | None:
        part = config.strata.get(stratum)
        value = part and part.get(number)
        return None if value is None else setting(knobs[number], value)

    rows = [
        [space.label(name), *(Change(written(old, name, n), written(new, name, n)) for n in knobs)]
        for name in named_strata(space, (old, new))
    ]
    return frame([space.noun, "data", *(knob.word for knob in space.knobs)], rows)


def setting(knob: Knob | None, value: float) -> str:
    """Return the value of a knob, or of the share of the data: `12.5 %`, or `3` if it is no share."""
    return share(value) if knob is None or (knob.low >= 0 and knob.high <= 1) else f"{value:g}"


def named_strata(space: Space, configs: Iterable[EnvConfig]) -> list[str]:
    """Return the strata that configs name, in the order of the space, then those that it does not have."""
    named = dict.fromkeys(name for config in configs for name in config.strata)
    return [name for name in space.names if name in named] + [n for n in named if n not in space.names]


def frame(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> pd.DataFrame:
    """Return a table whose cells stay as they are."""
    return pd.DataFrame(list(rows), columns=list(columns), dtype=object)
