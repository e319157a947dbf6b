"""Leaderboard of `envwright engineers bench`: as a table, and as a page."""

from pathlib import Path

import numpy as np
import pandas as pd

from engineer.bench.play import BenchResults
from engineer.bench.worlds import NOTHING, TRAPS
from envgen.files import write_html
from infra.formats import interval, points, short_count
from infra.report.page import environment
from infra.tables import frame

NOTE = (
    "Gain over fixed after the last stage, as a percentage of the gain of a greedy look-ahead that knows the"
    f" world; for '{NOTHING}' in points. Negative: worse than fixed. 95 % intervals over draws. All traps:"
    f" their mean, without '{NOTHING}'."
)


def leaderboard(results: BenchResults) -> pd.DataFrame:
    """Return a row for each engineer, best first: see `NOTE`; then designs used, tokens, and dollars if a
    price is known."""
    rows = [
        [
            score.engineer,
            score.overall,
            *score.shares.values(),
            score.gains[NOTHING],
            f"{score.used} of {score.asked}" if score.asked else None,
            short_count(sum(score.tokens)) if any(score.tokens) else None,
            *[f"{np.dot(score.tokens, results.price) / 1e6:.2f}"] * any(results.price),
        ]
        for score in results.engineers
    ]
    traps = [*results.engineers[0].shares, NOTHING]
    columns = ["engineer", "all traps", *traps, "designs used", "tokens"]
    return frame(columns + ["dollars"] * any(results.price), rows)


def write_page(path: Path, results: BenchResults) -> None:
    """Write the leaderboard as a page."""
    best = [
        f"{score.engineer} {points(score.overall.value)} % {interval(score.overall)}"
        for score in results.engineers[:4]
    ]
    page = environment().get_template("bench.html.j2")
    html = page.render(
        headlines=["Engineers in worlds with a trap", f"Of the look-ahead's gain: {', '.join(best)}."],
        facts={"Draws": f"{results.draws} of each trap", "Stages": str(results.stages)},
        note=NOTE,
        leaderboard=leaderboard(results),
        gains=frame(
            ["engineer", *TRAPS], [[each.engineer, *each.gains.values()] for each in results.engineers]
        ),
        traps={trap: draw.__doc__ for trap, draw in TRAPS.items()},
    )
    write_html(path, html)
