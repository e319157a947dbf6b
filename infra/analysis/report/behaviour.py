"""How the proposals behaved: the measures of `engineer.behaviour` as the rows of a table, one column a proposal."""

from collections.abc import Callable
from dataclasses import dataclass

from engineer.behaviour import ProposalBehaviour
from envgen.breakdown import Difference
from infra.analysis.formats import SPACE, UNDEFINED, claims, points, points_interval, share, signed
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


def rows(results: CurriculumResults) -> list[Row]:
    """One row per measure, with one cell per stage."""

    def row(name: str, unit: str, cell: Callable[[ProposalBehaviour], Cell]) -> Row:
        return Row(name, unit, tuple(BY_GATE if stage.overruled else cell(stage.behaviour) for stage in results.stages))

    return [
        row("Edit of the shares", "points, sum over map sizes, 0 to 200", lambda b: _edited(b.edit.data_ratio)),
        row("Edit of the hole ratios", "points, sum over map sizes", lambda b: _edited(b.edit.hole_ratio)),
        row("Edit of the wait ratios", "points, sum over map sizes", lambda b: _edited(b.edit.wait_ratio)),
        Row("Map sizes left as they were", "of those trained on", tuple(map(_preserved, results.stages))),
        row(
            "Map sizes that worked and were left", "of those that worked", lambda b: _of(b.worked_preserved, len(b.worked)) if b.worked else Cell("none worked")
        ),
        row(f"Data on sizes under 5{SPACE}% valid", "stage → proposed", lambda b: _shift(b.shares.unsolved, b.proposed_shares.unsolved)),
        row(f"Data on sizes over 95{SPACE}% valid", "stage → proposed", lambda b: _shift(b.shares.solved, b.proposed_shares.solved)),
        row("Signal gained", "−1 to 1", _signal),
        row("Agreement with the failures", "−1 to 1", lambda b: _number(b.agreement)),
        Row("Valid rate against the policy before", "points", tuple(_change(s.behaviour.valid_change) for s in results.stages)),
        row("Edit taken back after a drop", "−1 to 1", lambda b: _number(b.undone) if b.dropped else Cell("no drop")),
        row("Rationale says what is true", "of its checkable claims", lambda b: Cell(claims(b.claims) if b.claims else UNDEFINED)),
    ]


def _trained(stage: StageResult) -> int:
    return sum(knobs.data_ratio > 0 for knobs in stage.config.sizes.values())


def _preserved(stage: StageResult) -> Cell:
    return BY_GATE if stage.overruled else _of(stage.behaviour.preserved, _trained(stage))


def _change(change: Difference) -> Cell:
    return Cell(points(change.value), points_interval(change))


def _edited(distance: float | None) -> Cell:
    return Cell(UNDEFINED if distance is None else f"{100 * distance:.1f}")


def _of(sizes: tuple[int, ...], total: int) -> Cell:
    return Cell(f"{len(sizes)} of {total}", ", ".join(f"{size}×{size}" for size in sizes))


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
