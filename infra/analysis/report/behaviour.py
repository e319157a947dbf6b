"""How the proposals behaved: the measures of `engineer.behaviour`, a row each, a column a proposal."""

from collections.abc import Callable
from dataclasses import dataclass

from engineer.behaviour import ProposalBehaviour
from engineer.words import plural
from envgen.breakdown import Difference
from envgen.family import Knob, Space
from infra.analysis.formats import (
    SPACE,
    UNDEFINED,
    claims,
    is_share,
    label,
    points,
    points_interval,
    share,
    signed,
)
from infra.runs.results import CurriculumResults, StageResult


@dataclass(frozen=True)
class Cell:
    """One measure of one proposal."""

    text: str
    range: str = ""
    """Its interval or bounds."""


BY_GATE = Cell("by the gate")
"""Where nobody proposed anything."""


@dataclass(frozen=True)
class Row:
    """One measure of all proposals."""

    name: str
    unit: str
    cells: tuple[Cell, ...]


def rows(space: Space, results: CurriculumResults) -> list[Row]:
    """One row per measure, with one cell per stage."""
    strata, short = plural(space.noun), plural(space.short)

    def row(name: str, unit: str, cell: Callable[[ProposalBehaviour], Cell]) -> Row:
        stages = results.stages
        return Row(
            name, unit, tuple(BY_GATE if stage.overruled else cell(stage.behaviour) for stage in stages)
        )

    def kept(stage: StageResult) -> Cell:
        return BY_GATE if stage.overruled else _of(space, stage.behaviour.preserved, _trained(stage))

    def worked(found: ProposalBehaviour) -> Cell:
        return _of(space, found.worked_preserved, len(found.worked)) if found.worked else Cell("none worked")

    def data(name: str) -> Callable[[ProposalBehaviour], Cell]:
        return lambda found: _shift(getattr(found.shares, name), getattr(found.proposed_shares, name))

    def undone(found: ProposalBehaviour) -> Cell:
        return _number(found.undone) if found.dropped else Cell("no drop")

    def said(found: ProposalBehaviour) -> Cell:
        return Cell(claims(found.claims) if found.claims else UNDEFINED)

    changes = tuple(_change(stage.behaviour.valid_change) for stage in results.stages)
    return [
        row(
            "Edit of the shares",
            f"points, sum over {strata}, 0 to 200",
            lambda found: _edited(found.edit.data_ratio, percent=True),
        ),
        *(row(*_edit_words(knob, strata), _edit_of(knob)) for knob in space.knobs),
        Row(
            f"{strata.capitalize()} left as they were",
            "of those trained on",
            tuple(map(kept, results.stages)),
        ),
        row(f"{strata.capitalize()} that worked and were left", "of those that worked", worked),
        row(f"Data on {short} under 5{SPACE}% valid", "stage → proposed", data("unsolved")),
        row(f"Data on {short} over 95{SPACE}% valid", "stage → proposed", data("solved")),
        row("Signal gained", "−1 to 1", _signal),
        row("Agreement with the failures", "−1 to 1", lambda found: _number(found.agreement)),
        Row("Valid rate against the policy before", "points", changes),
        row("Edit taken back after a drop", "−1 to 1", undone),
        row("Rationale says what is true", "of its checkable claims", said),
    ]


def _edit_words(knob: Knob, strata: str) -> tuple[str, str]:
    unit = "points, sum" if is_share(knob) else "sum"
    return f"Edit of the {plural(label(knob.name))}", f"{unit} over {strata}"


def _edit_of(knob: Knob) -> Callable[[ProposalBehaviour], Cell]:
    return lambda found: _edited(found.edit.knobs.get(knob.name), percent=is_share(knob))


def _trained(stage: StageResult) -> int:
    return sum(part.data_ratio > 0 for part in stage.config.strata.values())


def _change(change: Difference) -> Cell:
    return Cell(points(change.value), points_interval(change))


def _edited(distance: float | None, percent: bool) -> Cell:
    if distance is None:
        return Cell(UNDEFINED)
    return Cell(f"{100 * distance:.1f}" if percent else f"{distance:.2f}")


def _of(space: Space, strata: tuple[str, ...], total: int) -> Cell:
    return Cell(f"{len(strata)} of {total}", ", ".join(map(space.label, strata)))


def _shift(before: float, after: float) -> Cell:
    return Cell(f"{share(before)} → {share(after)}")


def _signal(behaviour: ProposalBehaviour) -> Cell:
    gain = behaviour.signal_gain
    if gain is None:
        return Cell(UNDEFINED)
    if gain.low == gain.high == 0:
        return Cell("none moved")
    return Cell(signed(gain.value, 3), f"[{signed(gain.low, 3)},{SPACE}{signed(gain.high, 3)}]")


def _number(value: float | None) -> Cell:
    return Cell(UNDEFINED if value is None else signed(value, 2))
