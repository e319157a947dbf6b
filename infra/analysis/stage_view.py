"""What people see of a stage in the Prefect UI: tables and Markdown, from what the stage left behind."""

import re
from collections.abc import Sequence
from typing import Any

from engineer.proposal import Proposal
from envgen.breakdown import Breakdown
from envgen.config import EnvConfig
from envgen.family import Space
from infra.analysis.formats import changes_between, label, markdown_table, rate_text
from policy.grpo.pilot import Piloted

_ADDRESS = re.compile(r"(?i:https?|ftp|mailto|xmpp)(?=:)|(?i:www)(?=\.)|@")
_JOINER = "\u2060"
"""Nothing to see, no break, and no part of an address."""


def config_table(space: Space, config: EnvConfig, previous: EnvConfig | None) -> list[dict[str, Any]]:
    """One row a stratum: each of its numbers, with what it was before where it changed."""
    return [
        {
            space.noun: row.label,
            **{name: knob.text for name, knob in zip(space.numbers, row.knobs, strict=True)},
        }
        for row in changes_between(space, previous or config, config)
    ]


def breakdown_table(space: Space, breakdown: Breakdown) -> list[dict[str, Any]]:
    """A row a stratum, and one for all: instances, rates with 95 % intervals, failures by category."""
    parts = [(space.label(name), part) for name, part in breakdown.strata.items()]
    return [
        {
            space.noun: name,
            "instances": part.n,
            "valid": rate_text(part.valid_rate),
            **({space.best: rate_text(part.optimal_rate)} if space.best else {}),
            **{label(category): part.failures.get(category, 0) for category in space.categories},
        }
        for name, part in (*parts, ("all", breakdown.overall))
    ]


def proposal_markdown(
    space: Space, stage: int, proposal: Proposal, previous: EnvConfig, pilots: Sequence[Piloted]
) -> str:
    """A proposal in words: who, why, what it changes, what projection changed, and the pilot scores."""
    lines = [
        f"### Proposed config for stage {stage + 1}",
        f"By **{quiet(proposal.engineer)}**, context {quiet(proposal.variant)}, after stage {stage}.",
    ]
    if proposal.fallback:
        lines.append(f"**The previous config is kept:** {quiet(proposal.fallback)}")
    reason = quiet(proposal.rationale or "(none)").splitlines()
    lines += ["**Reason given:**", "\n".join(f"> {line}" for line in reason)]
    rows = config_table(space, proposal.config, previous)
    lines.append(markdown_table(list(rows[0]), [list(row.values()) for row in rows], words=rows[0]))
    lines += [f"- projection: {quiet(change)}" for change in proposal.changes]
    for number, piloted in enumerate(pilots, start=1):
        chosen = " (this one)" if piloted.config == proposal.config else ""
        lines.append(f"Pilot of config {number} of {len(pilots)}{chosen}: {quiet(pilot_text(piloted))}")
    return "\n\n".join(lines)


def pilot_text(piloted: Piloted) -> str:
    """The score of a pilot in words."""
    if piloted.score is None:
        return f"failed: {piloted.error}"
    score, advantage, grounded = piloted.score, piloted.score.advantage, piloted.score.grounded
    learnable = f"mean p (1 - p) {score.learnability.value:.3f}, " if score.learnability else ""
    after = (
        f"valid {grounded.valid} after {grounded.steps} steps, on {grounded.instances} instances, "
        if grounded
        else ""
    )
    failed = f"; {piloted.error}" if piloted.error else ""
    return (
        f"{score.mixed} of {score.groups} groups with mixed rewards, mean absolute advantage "
        f"{advantage.value:.2f} [{advantage.low:.2f}, {advantage.high:.2f}], "
        f"{learnable}{after}{score.completion_tokens:,} tokens{failed}"
    )


def quiet(text: str) -> str:
    """A text whose words stay and whose Markdown, HTML, addresses and control characters do nothing: models
    write it."""
    words = "".join(c if c.isprintable() or c == "\n" else " " for c in text)
    # Bare addresses become links too, and a backslash does not keep every reader of Markdown from that.
    words = _ADDRESS.sub(lambda found: found[0] + _JOINER, words)
    return re.sub(r"([\\`*_{}\[\]()#+!|<>~&])", r"\\\1", words)
