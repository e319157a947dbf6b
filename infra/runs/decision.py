"""A person's decision on a proposed config: `decision.json` beside the proposal, stored before it is used.

A decision names the digest of the proposal that it was made on. If another proposal lies there, nobody has decided on that
one. Once the next stage has begun a decision stands.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field

from engineer.proposal import Proposal
from envgen.config import EnvConfig
from envgen.errors import RunDirectoryError
from envgen.files import file_digest, read_model, write_json
from envgen.frozen import Frozen
from infra.runs.steps import RECORDS, lock, stage_directory

PROPOSAL, DECISION = "proposal.json", "decision.json"
MAX_COMMENT = 2_000

Verdict = Literal["approve", "reject", "stop"]
"""`approve`: the next stage uses the config, as proposed or edited. `reject`: it keeps the config that is there. `stop`: there is no next stage."""


class Decision(Frozen):
    """What a person decided on the proposal of a stage."""

    stage: int = Field(ge=0)
    """The stage that proposed; the config is for the stage after it."""
    decision: Verdict
    config: EnvConfig
    """What the next stage uses."""
    edited: bool = False
    """Whether an approved config is not the proposed one."""
    changes: tuple[str, ...] = ()
    """What had to be changed in an edited config to make it possible, one sentence each."""
    comment: str = Field(default="", max_length=MAX_COMMENT)
    by: str = Field(default="", max_length=200)
    via: Literal["form", "shell"]
    proposal: str
    """SHA-256 of the `proposal.json` that was decided on."""
    decided_at: datetime

    def __str__(self) -> str:
        """One line for logs and tables."""
        done = {"approve": "approved with edits" if self.edited else "approved", "reject": "rejected", "stop": "stopped"}[self.decision]
        return f"{done}{f' by {self.by}' if self.by else ''} ({self.via}, {self.decided_at:%Y-%m-%d %H:%M} UTC){f': {self.comment}' if self.comment else ''}"


def read_decision(directory: Path) -> Decision | None:
    """The decision on the proposal in a stage directory; None if nobody has decided on this proposal. RunDirectoryError if it is damaged."""
    path = directory / DECISION
    if not path.exists():
        return None
    found = read_model(path, Decision, f"{path}: is missing", "delete it, and decide again with envwright approve or reject")
    return found if (directory / PROPOSAL).exists() and found.proposal == file_digest(directory / PROPOSAL) else None


def store_decision(run: Path, decision: Decision) -> Decision:
    """Store a decision; it replaces an earlier one on the same proposal until the next stage has begun.

    RunDirectoryError if another proposal lies there than the one decided on, or the next stage has begun.
    """
    directory = stage_directory(run, decision.stage)
    with lock(directory / RECORDS / "decision.lock"):
        if not (directory / PROPOSAL).exists() or file_digest(directory / PROPOSAL) != decision.proposal:
            raise RunDirectoryError(f"{directory / PROPOSAL}: is not the proposal that was shown; look at it again, and decide anew")
        begun, known = begun_with(run, decision.stage), read_decision(directory)
        if begun and (known or begun == Proposal.model_validate_json((directory / PROPOSAL).read_bytes()).config):
            raise RunDirectoryError(f"{run}: stage {decision.stage + 1} has begun, its config was {known or 'not asked about'}; decide on the next proposal")
        write_json(directory / DECISION, decision)
    return decision


def begun_with(run: Path, stage: int) -> EnvConfig | None:
    """The config of the stage after `stage`; None if that has not begun."""
    path = stage_directory(run, stage + 1) / "config.json"
    return EnvConfig.model_validate_json(path.read_bytes()) if path.exists() else None


def now() -> datetime:
    """The time in UTC, to the second."""
    return datetime.now(UTC).replace(microsecond=0)
