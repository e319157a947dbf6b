"""Markdown for the Prefect UI: the result of a run so far, and a proposal to decide on."""

import re

from engineer.proposal import Proposal
from envgen.config import EnvConfig
from envgen.space import Space
from infra import tables
from infra.report.page import headlines
from infra.results import CurriculumResults

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
    rates = tables.markdown(tables.rates(results, space.best))
    changes = quiet(tables.config_changes(space, last.config, last.proposal.config))
    proposed = f"**Proposed for stage {last.stage + 1}**, which has not been run: {changes}"
    return "\n\n".join([state, headlines(results, None)[0], rates, *decided, proposed, "\n".join(links)])


def proposal_markdown(space: Space, stage: int, proposal: Proposal, previous: EnvConfig) -> str:
    """Return a proposal in words: who, why, what it changes, and what projection changed."""
    lines = [
        f"### Proposed config for stage {stage + 1}",
        f"By **{quiet(proposal.engineer)}**, context {quiet(proposal.variant)}, after stage {stage}.",
    ]
    if proposal.fallback:
        lines.append(f"**The previous config is kept:** {quiet(proposal.fallback)}")
    reason = quiet(proposal.rationale or "(none)").splitlines()
    lines += ["**Reason given:**", "\n".join(f"> {line}" for line in reason)]
    # No table: the dialog in which a person decides on it is too narrow for one.
    changes = {
        quiet(space.label(name)): ", ".join(f"{word} {change.text}" for word, change in numbers.items())
        for name, numbers in tables.changes(space, previous, proposal.config).items()
    }
    lines.append("\n".join(f"- **{stratum}:** {text}" for stratum, text in changes.items()))
    lines += [f"- projection: {quiet(change)}" for change in proposal.changes]
    return "\n\n".join(lines)


def quiet(text: str) -> str:
    """Return the words of a model without effect: no Markdown, HTML, addresses or control characters."""
    words = "".join(c if c.isprintable() or c == "\n" else " " for c in text)
    # Bare addresses become links too, and a backslash does not keep every reader of Markdown from that.
    words = _ADDRESS.sub(lambda match: match[0] + _JOINER, words)
    return re.sub(r"([\\`*_{}\[\]()#+!|<>~&])", r"\\\1", words)
