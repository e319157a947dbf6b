"""`comparison.html`: table, figure and how to read them, in one self-contained page."""

from pathlib import Path

from markupsafe import Markup

from envgen.files import write_text
from infra.analysis.comparison.text import pilot_lines
from infra.analysis.formats import rate_names
from infra.analysis.report.build import environment
from infra.analysis.results import BASELINES, ComparisonResults

PAGE = "comparison.html"


def write_page(directory: Path, results: ComparisonResults, figure: str) -> Path:
    """Write the page with a figure, an SVG element that may be empty, and return its path."""
    templates = environment(Path(__file__).parent)
    rates = rate_names(results.best)
    intervals = sum(len(arm.against) for arm in results.arms) * len(rates)
    page = templates.get_template("comparison.html.j2").render(
        results=results,
        figure=Markup(figure),
        rates=rates,
        baselines=BASELINES,
        intervals=intervals,
        chance=0.05 * intervals,
        pilots=pilot_lines(results),
    )
    write_text(directory / PAGE, page)
    return directory / PAGE
