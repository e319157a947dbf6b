"""The rows of the report's long tables: how it was made, and rates of strata over the stages."""

from collections.abc import Callable

from envgen.breakdown import Counts, Rate
from envgen.space import Space
from infra.analysis.formats import duration, label, listed, rate_names, short_count
from infra.runs.results import CurriculumResults, Made


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
