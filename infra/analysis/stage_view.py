"""What people see of a stage in the Prefect UI: tables and Markdown, from what the stage left behind."""

import re
from collections.abc import Sequence
from typing import Any

from engineer.proposal import Proposal
from envgen.breakdown import Breakdown
from envgen.config import EnvConfig
from envgen.mapf.verifier import FailureCategory
from infra.analysis.formats import changes_between, interval, percent
from policy.grpo.pilot_score import Piloted

KNOB_TITLES = ("data_ratio", "hole_ratio", "wait_ratio")


def config_table(config: EnvConfig, previous: EnvConfig | None) -> list[dict[str, Any]]:
    """One row a map size: each ratio, with what it was before where it changed."""
    return [
        {"map size": f"{row.size}x{row.size}", **{name: knob.text for name, knob in zip(KNOB_TITLES, row.knobs, strict=True)}}
        for row in changes_between(previous or config, config)
    ]


def breakdown_table(breakdown: Breakdown) -> list[dict[str, Any]]:
    """One row a map size, and one for all: instances, rates with 95 % Wilson intervals, answers of each failure category."""
    parts = [*((f"{size}x{size}", part) for size, part in breakdown.sizes.items()), ("all", breakdown.overall)]
    return [
        {
            "map size": name,
            "instances": part.n,
            **{kind: f"{percent(rate.value)} {interval(rate)}" for kind, rate in (("valid", part.valid_rate), ("optimal", part.optimal_rate))},
            **{str(category).replace("_", " "): part.failures.get(category, 0) for category in FailureCategory},
        }
        for name, part in parts
    ]


def proposal_markdown(stage: int, proposal: Proposal, previous: EnvConfig, pilots: Sequence[Piloted]) -> str:
    """A proposal in words: who, why, what it changes against the config before, what projection changed, and the pilot scores."""
    lines = [f"### Proposed config for stage {stage + 1}", f"By **{quiet(proposal.designer)}**, context {quiet(proposal.variant)}, after stage {stage}."]
    if proposal.fallback:
        lines.append(f"**The previous config is kept:** {quiet(proposal.fallback)}")
    lines += ["**Reason given:**", "\n".join(f"> {line}" for line in quiet(proposal.rationale or "(none)").splitlines())]
    lines += [_table(config_table(proposal.config, previous)), *(f"- projection: {quiet(change)}" for change in proposal.changes)]
    for number, piloted in enumerate(pilots, start=1):
        chosen = " (this one)" if piloted.config == proposal.config else ""
        lines.append(f"Pilot of config {number} of {len(pilots)}{chosen}: {quiet(pilot_text(piloted))}")
    return "\n\n".join(lines)


def pilot_text(piloted: Piloted) -> str:
    """The score of a pilot in words."""
    if piloted.score is None:
        return f"failed: {piloted.error}"
    score, advantage = piloted.score, piloted.score.advantage
    return (
        f"{score.mixed} of {score.groups} groups with mixed rewards, mean absolute advantage "
        f"{advantage.value:.2f} [{advantage.low:.2f}, {advantage.high:.2f}], {score.completion_tokens:,} tokens"
    )


def quiet(text: str) -> str:
    """A text whose words stay and whose Markdown and HTML do nothing: models write it."""
    return re.sub(r"([\\`*_{}\[\]()#+!|<>~&])", r"\\\1", text)


def _table(rows: list[dict[str, Any]]) -> str:
    heads = list(rows[0])
    return "\n".join(["| " + " | ".join(cells) + " |" for cells in (heads, ["---"] * len(heads), *([str(row[head]) for head in heads] for row in rows))])
