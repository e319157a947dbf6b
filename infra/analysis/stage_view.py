"""Markdown for the Prefect UI: the result of a run so far, and a proposal to decide on."""

import re

from engineer.proposal import Proposal
from envgen.config import EnvConfig
from envgen.space import Space
from infra.analysis.formats import (
    StratumChanges,
    changes_between,
    config_changes,
    difference_text,
    markdown_table,
    number_words,
    rate_names,
    rate_text,
)
from infra.analysis.report.text import headline
from infra.runs.results import CurriculumResults

_ADDRESS = re.compile(r"(?i:https?|ftp|mailto|xmpp)(?=:)|(?i:www)(?=\.)|@")
_JOINER = "\u2060"
"""Nothing to see, no break, and no part of an address."""


def result_markdown(
    space: Space, results: CurriculumResults, stages: int, places: dict[str, str], waiting: str
) -> str:
    """Return the result of a run so far: state, rates by stage, decisions, the last proposal and links.

    `places` are addresses by name; what is no web address is written as a path."""
    done, last = len(results.stages), results.stages[-1]
    state = f"**Waits for a decision:** {waiting}" if waiting else f"{done} of {stages} stages are finished."
    decided = [
        f"- A person decided on the config of stage {stage.stage + 1}: {quiet(str(stage.decision))}"
        for stage in results.stages
        if stage.decision
    ]
    links = [
        f"- [{name}]({at})" if at.startswith("http") else f"- {name}: `{at}`" for name, at in places.items()
    ]
    changes = quiet(config_changes(space, last.config, last.proposal.config))
    proposed = f"**Proposed for stage {last.stage + 1}**, which has not been run: {changes}"
    return "\n\n".join(
        [state, headline(results), _rates(space, results), *decided, proposed, "\n".join(links)]
    )


def _rates(space: Space, results: CurriculumResults) -> str:
    """Return a Markdown table: rates of each policy in %, and changes since the base policy, with 95 %
    intervals."""
    names = rate_names(space.best)
    rows = [["base policy"]]
    for name in names:
        rows[0] += [rate_text(getattr(results.start.overall, f"{name}_rate")), "–"]
    for stage in results.stages:
        row = [f"after stage {stage.stage}"]
        for name in names:
            gain = getattr(stage, f"{name}_gain")
            row += [rate_text(getattr(stage.breakdown.overall, f"{name}_rate")), difference_text(gain, "")]
        rows.append(row)
    headings = [heading for word in names.values() for heading in (word, "change, points")]
    return markdown_table(["policy", *headings], rows)


def proposal_markdown(space: Space, stage: int, proposal: Proposal, previous: EnvConfig) -> str:
    """A proposal in words: who, why, what it changes, and what projection changed."""
    lines = [
        f"### Proposed config for stage {stage + 1}",
        f"By **{quiet(proposal.engineer)}**, context {quiet(proposal.variant)}, after stage {stage}.",
    ]
    if proposal.fallback:
        lines.append(f"**The previous config is kept:** {quiet(proposal.fallback)}")
    reason = quiet(proposal.rationale or "(none)").splitlines()
    lines += ["**Reason given:**", "\n".join(f"> {line}" for line in reason)]
    # No table: the dialog in which a person decides on it is too narrow for one.
    rows = changes_between(space, previous, proposal.config)
    lines.append("\n".join(f"- **{quiet(row.label)}:** {_numbers(space, row)}" for row in rows))
    lines += [f"- projection: {quiet(change)}" for change in proposal.changes]
    return "\n\n".join(lines)


def _numbers(space: Space, row: StratumChanges) -> str:
    numbers = zip(number_words(space), row.knobs, strict=True)
    return ", ".join(f"{word} {number.text}" for word, number in numbers)


def quiet(text: str) -> str:
    """A text whose words stay and whose Markdown, HTML, addresses and control characters do nothing: models
    write it."""
    words = "".join(c if c.isprintable() or c == "\n" else " " for c in text)
    # Bare addresses become links too, and a backslash does not keep every reader of Markdown from that.
    words = _ADDRESS.sub(lambda found: found[0] + _JOINER, words)
    return re.sub(r"([\\`*_{}\[\]()#+!|<>~&])", r"\\\1", words)
