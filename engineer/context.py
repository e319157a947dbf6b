"""What an engineer may know, and which of it a context variant shows; `engineer.prompt` puts it into words.

Modules after arXiv 2606.17682: F failure breakdown, G guideline, H history of earlier stages, S the rationale
of the proposal before, T training details. W is ours: what the failures say of the knobs that ask for a
label, which F does not.
"""

from enum import StrEnum
from typing import Any

from pydantic import Field, JsonValue

from envgen.breakdown import Breakdown
from envgen.config import EnvConfig
from envgen.estimates import Difference
from envgen.frozen import Frozen
from envgen.space import Space


class StageRecord(Frozen):
    """One finished stage: what was trained on and what the policy then got wrong."""

    stage: int = Field(ge=0)
    parent: int = Field(default_factory=lambda fields: fields["stage"] - 1, ge=-1)
    """The stage whose checkpoint it started from; -1 is the base policy.

    Not the one before it if that one was undone."""
    config: EnvConfig
    breakdown: Breakdown
    advantage: dict[str, float] = Field(default_factory=dict)
    """Stratum -> mean absolute advantage of the answers of the stage's training; strata without answers are
    left out."""
    zero_variance: dict[str, float] = Field(default_factory=dict)
    """Stratum -> share of the stage's training groups whose rewards are all equal; strata without answers are
    left out."""
    change: dict[str, Difference] = Field(default_factory=dict)
    """Stratum -> valid rate after the stage minus the rate of the policy it started from, on the same
    instances."""


class DesignContext(Frozen):
    """All that an engineer can read. It holds no reward, no validation instance and no way to change
    either."""

    space: Space
    current: StageRecord
    history: tuple[StageRecord, ...] = ()
    """Stages before the current one, oldest first; stage 0 used the default config."""
    state: dict[str, Any] = Field(default_factory=dict)
    """What the engineer's last proposal carried as its state; empty after stage 0."""
    previous_rationale: str = ""
    """Why the current config was chosen: the rationale of its proposal, or the words of the person who
    decided otherwise; empty after stage 0."""
    stages: int = Field(ge=1)
    """Stages of the whole curriculum."""
    instances: int = Field(ge=1)
    """Training instances of each stage."""
    epochs: float = Field(gt=0)
    """Passes over them in each stage."""
    training: dict[str, JsonValue] = Field(default_factory=dict)
    """How the policy is trained, as words and numbers to read: `algorithm`, `options` (of the environment,
    name -> value), `group_size`, `learning_rate`, `answer_tokens`, `reward` (term -> weight),
    `hyperparameters` (name -> value). Any may be missing."""

    def valid_rates(self) -> dict[str, float]:
        """Return stratum -> valid rate, 0 to 1, after the current stage; strata without answers are left
        out."""
        parts = {name: self.current.breakdown.strata.get(name) for name in self.space.names}
        return {name: part.valid / part.n for name, part in parts.items() if part and part.n}


class Module(StrEnum):
    """A context module: one paragraph of what the engineer is shown."""

    FAILURES = "failures"
    """F: failure breakdown of the current stage per stratum."""
    GUIDELINE = "guideline"
    """G: task-level design heuristics."""
    HISTORY = "history"
    """H: configs and failures of all earlier stages, the default config of stage 0 included."""
    HISTORY_WITHOUT_DEFAULT = "history-without-default"
    """H without stage 0."""
    RATIONALE = "rationale"
    """S: what the engineer wrote a stage ago."""
    BOOKKEEPING = "bookkeeping"
    """T: stage, instances and epochs only."""
    WAITS = "waits"
    """W: valid rates of the current stage per stratum, where a label that a knob asks for is present, and
    where it is absent. Named after the first such label, the need of a wait."""
    TRAINING = "training"
    """T in full: the bookkeeping, and algorithm, reward and hyperparameters."""


_V4 = (Module.FAILURES, Module.GUIDELINE, Module.HISTORY_WITHOUT_DEFAULT)

VARIANTS: dict[str, tuple[Module, ...]] = {
    "V1": (Module.FAILURES,),
    "V2": (Module.FAILURES, Module.GUIDELINE),
    "V3": (Module.FAILURES, Module.GUIDELINE, Module.HISTORY),
    "V4": _V4,
    "V5": (*_V4, Module.RATIONALE),
    "V6": (*_V4, Module.BOOKKEEPING),
    "V6S": (*_V4, Module.RATIONALE, Module.BOOKKEEPING),
    "V6W": (*_V4, Module.BOOKKEEPING, Module.WAITS),
    "full-details": (*_V4, Module.TRAINING),
    "no-history": (Module.FAILURES, Module.GUIDELINE, Module.BOOKKEEPING),
}
"""Context variants. Readings of the paper differ on whether its V6 shows the rationale (S): V6 leaves it out,
V6S has it. V6W is ours."""
