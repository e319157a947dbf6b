"""Markdown for the Prefect UI: the result of a run so far, and a proposal to decide on."""

import re
from typing import Any

import pandas as pd

from engineer.contract import Proposal
from envgen.config import EnvConfig
from envgen.estimates import Difference, Rate
from envgen.space import Space
from infra import tables
from infra.formats import estimate, interval, points
from infra.results import CurriculumResults
from infra.runs.run import Run
from infra.summary import advice, headlines

_ADDRESS = re.compile(r"(?i:https?|ftp|mailto|xmpp)(?=:)|(?i:www)(?=\.)|@")
_JOINER = "\u2060"
"""Word joiner: invisible, no break, and no part of an address."""


def table(frame: pd.DataFrame) -> str:
    """Return a table in Markdown, its first column on the left."""
    marks = ["---", *["---:"] * (len(frame.columns) - 1)]
    rows = [[_text(cell) for cell in row] for row in frame.itertuples(index=False, name=None)]
    lines = [list(frame.columns), marks, *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _text(cell: Any) -> str:
    if isinstance(cell, Difference):
        return f"{points(cell.value)} {interval(cell)}"
    return "–" if cell is None else estimate(cell) if isinstance(cell, Rate) else str(cell)


def result_markdown(run: Run, results: CurriculumResults, places: dict[str, str], waiting: str) -> str:
    """Return the result of a run so far: state, headlines, rates, and links to `places`, address by name."""
    space, state = run.preset.space, f"{len(results.stages)} of {run.preset.stages} stages are finished."
    compare = advice(results, run)
    links = [
        f"- [{name}]({at})" if at.startswith("http") else f"- {name}: `{at}`" for name, at in places.items()
    ]
    parts = [
        f"**Waits for a decision:** {waiting}" if waiting else state,
        *headlines(results, space.best),
        f"{compare[0]}\n\n```\n{compare[1]}\n```" if compare else "",
        table(tables.rates(results, space.best)),
        "\n".join(links),
    ]
    return "\n\n".join(filter(None, parts))


def proposal_markdown(space: Space, stage: int, proposal: Proposal, previous: EnvConfig) -> str:
    """Return a proposal in words: who, why, what it changes, and what projection changed."""
    lines = [
        f"### Proposed config for stage {stage + 1}",
        f"By **{quiet(proposal.engineer)}**, context {quiet(proposal.context)}, after stage {stage}.",
    ]
    if proposal.fallback:
        lines.append(f"**The previous config is kept:** {quiet(proposal.fallback)}")
    reason = quiet(proposal.rationale or "(none)").splitlines()
    lines += ["**Reason given:**", "\n".join(f"> {line}" for line in reason)]
    # A list: the dialog in which a person decides is too narrow for a table.
    changes, strata = tables.changes(space, previous, proposal.config), []
    for stratum, *numbers in changes.itertuples(index=False, name=None):
        words = [f"{word} {number.text}" for word, number in zip(changes.columns[1:], numbers, strict=True)]
        strata.append(f"- **{quiet(stratum)}:** {', '.join(words)}")
    lines.append("\n".join(strata))
    lines += [f"- projection: {quiet(change)}" for change in proposal.changes]
    return "\n\n".join(lines)


def quiet(text: str) -> str:
    """Return the words of a model without effect: no Markdown, HTML, addresses or control characters."""
    words = "".join(c if c.isprintable() or c == "\n" else " " for c in text)
    # Bare addresses become links too, and a backslash does not keep every reader of Markdown from that.
    words = _ADDRESS.sub(lambda match: match[0] + _JOINER, words)
    return re.sub(r"([\\`*_{}\[\]()#+!|<>~&])", r"\\\1", words)
