"""The rows of the report's long tables: rates of strata over the stages, and how the proposals behaved."""

from collections.abc import Callable
from typing import NamedTuple

from engineer.words import plural
from envgen.breakdown import Counts, Rate
from envgen.space import Space
from infra.analysis.formats import (
    SPACE,
    UNDEFINED,
    duration,
    is_share,
    label,
    listed,
    rate_names,
    share,
    short_count,
)
from infra.runs.results import CurriculumResults, Made, StageResult


def made_with(made: Made) -> dict[str, str]:
    """Name -> value of when, in how long and on what results were made; what is not known is left out."""
    found = {
        "Finished": made.finished.replace("T", " ").replace("+00:00", " UTC"),
        "Time of the steps": duration(made.seconds) if made.seconds else "",
        "Tokens": short_count(made.tokens) if made.tokens else "",
        "Cost of the engineer": "" if made.cost is None else f"{made.cost:.4g}",
        "Version": listed(made.code),
        "Machine": listed(made.machines),
    }
    return {name: value for name, value in found.items() if value}


def stratum_rows(space: Space, results: CurriculumResults) -> list[tuple[str, str, list[Rate | None]]]:
    """A row for each rate that is known of a stratum anywhere.

    Label of the stratum, name of the rate, the rate of the base policy and after each stage; None where it is
    not known.
    """
    breakdowns = [results.start, *(stage.breakdown for stage in results.stages)]
    rows = []
    for stratum in results.start.strata:
        parts = [breakdown.strata.get(stratum) for breakdown in breakdowns]
        for name, rate in _rates(space):
            cells = [part and rate(part) for part in parts]
            if any(cells):
                rows.append((space.label(stratum), name, cells))
    return rows


def _rates(space: Space) -> list[tuple[str, Callable[[Counts], Rate | None]]]:
    """Each rate of a stratum: what it is called, and how it is counted."""
    found: list[tuple[str, Callable[[Counts], Rate | None]]] = []
    for rate, word in rate_names(space.best).items():
        found.append((word, lambda part, name=f"{rate}_rate": getattr(part, name)))
    for asked in (knob.label for knob in space.asked if knob.label):
        found.append(
            (f"valid {asked.present}", lambda part, name=asked.name: (part.rates(name) or (None,))[0])
        )
        found.append(
            (f"valid {asked.absent}", lambda part, name=asked.name: (part.rates(name) or (None,))[-1])
        )
    for term in space.terms:
        found.append((label(term), lambda part, name=term: part.term_rate(name)))
    return found


class Cell(NamedTuple):
    """One measure of one proposal."""

    text: str
    range: str = ""
    """Its interval or bounds."""


Measure = Callable[[StageResult], Cell]
BY_GATE = Cell("by the gate")
"""Where nobody proposed anything."""


def behaviour_rows(space: Space, results: CurriculumResults) -> list[tuple[str, str, list[Cell]]]:
    """A row for each measure of `engineer.behaviour`: its name and unit, then a cell for each stage."""
    strata, short = plural(space.noun), plural(space.short)
    measures: list[tuple[str, str, Measure]] = [
        (
            "Edit of the shares",
            f"points, sum over {strata}, 0 to 200",
            lambda stage: _edited(stage.behaviour.edit.data_ratio, percent=True),
        )
    ]
    for knob in space.knobs:
        unit = f"{'points, sum' if is_share(knob) else 'sum'} over {strata}"
        cell = _edit_of(knob.name, percent=is_share(knob))
        measures.append((f"Edit of the {plural(label(knob.name))}", unit, cell))

    measures += [
        (f"Data on {short} under 5{SPACE}% valid", "stage → proposed", _shift_of("unsolved")),
        (f"Data on {short} over 95{SPACE}% valid", "stage → proposed", _shift_of("solved")),
    ]
    return [
        (
            name,
            unit,
            [BY_GATE if stage.overruled else cell(stage) for stage in results.stages],
        )
        for name, unit, cell in measures
    ]


def _edit_of(knob: str, percent: bool) -> Measure:
    return lambda stage: _edited(stage.behaviour.edit.knobs.get(knob), percent)


def _edited(distance: float | None, percent: bool) -> Cell:
    if distance is None:
        return Cell(UNDEFINED)
    return Cell(f"{100 * distance:.1f}" if percent else f"{distance:.2f}")


def _shift_of(name: str) -> Measure:
    def cell(stage: StageResult) -> Cell:
        before, after = (
            getattr(one, name) for one in (stage.behaviour.shares, stage.behaviour.proposed_shares)
        )
        return Cell(f"{share(before)} → {share(after)}")

    return cell
