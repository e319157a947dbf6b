"""What an engineer may know, and which of it a context shows; `engineer.prompt` puts it into words.

Modules after arXiv 2606.17682: F failure breakdown, G guideline, H history of the designed stages (with D
also of stage 0), S the rationale of the proposal before, T training details. Ours are W, valid rates where a
label that a knob asks for is present and where it is absent, and E, failed answers of training.
"""

from typing import Any

from pydantic import Field, JsonValue

from envgen.breakdown import Breakdown
from envgen.config import EnvConfig, Part
from envgen.estimates import Difference
from envgen.frozen import Frozen
from envgen.space import Space


class StageRecord(Frozen):
    """One finished stage: what was trained on and what the policy then got wrong."""

    stage: int = Field(ge=0)
    parent: int = Field(default_factory=lambda fields: fields["stage"] - 1, ge=-1)
    """Stage whose checkpoint it started from; -1 is the base policy. Not the last one after a rollback."""
    config: EnvConfig
    breakdown: Breakdown
    advantage: dict[str, float] = Field(default_factory=dict)
    """Stratum with answers in training -> their mean absolute advantage."""
    zero_variance: dict[str, float] = Field(default_factory=dict)
    """Stratum with answers in training -> share of their groups whose rewards are all equal."""
    change: dict[str, Difference] = Field(default_factory=dict)
    """Stratum -> valid rate minus the rate of the policy it started from, on the same instances."""


class FailedAnswer(Frozen):
    """A training instance that the policy failed: the ends of prompt and completion, and what was wrong, in a
    sentence or as the failure category."""

    stratum: str
    question: str
    answer: str
    verdict: str


class DesignContext(Frozen):
    """All that an engineer can read: no reward, no validation instance and no way to change either."""

    space: Space
    current: StageRecord
    history: tuple[StageRecord, ...] = ()
    """Stages before the current one, oldest first; stage 0 used the default config."""
    state: dict[str, Any] = Field(default_factory=dict)
    """What the engineer's last proposal carried as its state; empty after stage 0."""
    previous_rationale: str = ""
    """Why the current config was chosen, by its engineer or the person who decided; empty after stage 0."""
    stages: int = Field(ge=1)
    """Stages of the whole curriculum."""
    instances: int = Field(ge=1)
    """Training instances of each stage."""
    epochs: float = Field(gt=0)
    """Passes over them in each stage."""
    training: dict[str, JsonValue] = Field(default_factory=dict)
    """How the policy is trained. Any of these may be missing: `algorithm`, `group_size`, `learning_rate`,
    `answer_tokens`, `reward` (term -> weight), `hyperparameters` (name -> value)."""
    examples: tuple[FailedAnswer, ...] = ()
    """At most two of each stratum, from the end of the stage's training."""

    def current_parts(self) -> dict[str, Part]:
        """Return the current share and knobs of each stratum."""
        return self.space.parts(self.current.config)

    def valid_rates(self) -> dict[str, float]:
        """Return the valid rate, 0 to 1, of each stratum with answers after the current stage."""
        parts = {name: self.current.breakdown.strata.get(name) for name in self.space.names}
        return {name: part.valid / part.n for name, part in parts.items() if part and part.n}


MODULES = {
    **{"F": "failures", "W": "labels", "E": "examples", "G": "guideline"},
    **{"H": "history", "S": "rationale", "T": "training"},
}
"""Letter -> context module, a template, in the order of the question. D adds stage 0 to the history."""

NAMED = {"V1": "F", "V2": "FG", "V3": "FGHD", "V4": "FGH", "V5": "FGHS", "V6": "FGHT", "V6W": "FGHTW"}
"""Contexts as arXiv 2606.17682 names them; its V6 may show the rationale too. V6W is ours."""


def letters_of(context: str) -> str:
    """Return the letters of a context, as `FGHT` or `V6`; ValueError if it is none."""
    letters = NAMED.get(context, context)
    strange = len(set(letters)) < len(letters) or not set(letters) <= {*MODULES, "D"}
    if not letters or strange or ("D" in letters and "H" not in letters):
        some = f"some of the letters {''.join(MODULES)}D, each once, D with H"
        raise ValueError(f"context {context[:40]!r}: expected one of {', '.join(NAMED)}, or {some}")
    return letters
