"""A person's decision on a proposed config. It names the digest of the proposal that it was made on."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from envgen.config import EnvConfig
from envgen.frozen import Frozen

MAX_COMMENT = 2_000

Verdict = Literal["approve", "reject", "stop"]
"""`approve`: the next stage uses the config, as proposed or edited. `reject`: it keeps the config that is
there. `stop`: there is no next stage."""


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
        done = {
            "approve": "approved with edits" if self.edited else "approved",
            "reject": "rejected",
            "stop": "stopped",
        }[self.decision]
        return (
            f"{done}{f' by {self.by}' if self.by else ''} ({self.via}, {self.decided_at:%Y-%m-%d %H:%M}"
            f" UTC){f': {self.comment}' if self.comment else ''}"
        )
