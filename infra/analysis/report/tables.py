"""The rates of each stratum over the stages: all that its counts know, as the rows of a table."""

from collections.abc import Callable
from dataclasses import dataclass

from envgen.breakdown import Counts, Rate
from envgen.family import Space
from infra.analysis.formats import label, rate_names
from infra.runs.results import CurriculumResults


@dataclass(frozen=True)
class StratumRow:
    """One rate of one stratum."""

    stratum: str
    """Its label."""
    name: str
    cells: tuple[Rate | None, ...]
    """Of the base policy, then after each stage; None where it is not known."""


def stratum_rows(space: Space, results: CurriculumResults) -> list[StratumRow]:
    """A row for each rate that is known of a stratum anywhere."""
    breakdowns = [results.start, *(stage.breakdown for stage in results.stages)]
    rows = []
    for stratum in results.start.strata:
        parts = [breakdown.strata.get(stratum) for breakdown in breakdowns]
        for name, rate in _rates(space):
            cells = tuple(part and rate(part) for part in parts)
            if any(cells):
                rows.append(StratumRow(space.label(stratum), name, cells))
    return rows


def _rates(space: Space) -> list[tuple[str, Callable[[Counts], Rate | None]]]:
    """Each rate of a stratum: what it is called, and how it is counted."""
    found: list[tuple[str, Callable[[Counts], Rate | None]]] = []
    for rate, word in rate_names(space.best).items():
        found.append((word, lambda part, name=f"{rate}_rate": getattr(part, name)))
    for asked in (knob.label for knob in space.asked if knob.label):
        found.append((f"valid {asked.present}", _split(asked.name, 0)))
        found.append((f"valid {asked.absent}", _split(asked.name, 1)))
    for term in space.terms:
        found.append((label(term), lambda part, name=term: part.term_rate(name)))
    return found


def _split(name: str, side: int) -> Callable[[Counts], Rate | None]:
    def rate(part: Counts) -> Rate | None:
        both = part.rates(name)
        return both and both[side]

    return rate
