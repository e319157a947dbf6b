"""Which engineer a curriculum uses, and how it is asked."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from engineer.gate import Gate
from envgen.frozen import Frozen

Wording = Literal["full", "compact"]
"""How a prompt is worded: `full` for models that read instructions, `compact` for the shipped tiny policy,
which was trained on these very texts."""


class EngineerSpec(Frozen):
    """Who proposes configs, what they are shown, and how a model's answer is drawn."""

    name: str = Field(default="checkpoint", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """A name known to `engineer.engineers.registry`: our own engineers, and those that installed packages
    add."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the engineer, checked by its own model; see its docstring."""
    variant: str = "V6"
    """A context variant: `engineer.context.VARIANTS`."""
    wording: Wording = "full"
    """Not read where a policy that was taught design questions is asked, as `tiny` and `tiny-puzzles` were:
    it gets `compact` (`Preset.effective_engineer`)."""
    max_tokens: int = Field(default=1024, ge=16)
    """Longest answer of a model engineer."""
    temperature: float = Field(default=0.0, ge=0)
    """Of the answer, and of its repair if it cannot be read; 0 is greedy."""
    schema_decoding: bool = True
    """Decode under the JSON schema of the answer."""
    candidates: int = Field(default=1, ge=1, le=16)
    """Proposals drawn after each stage; the one with the best pilot score is used."""
    pilot: int = Field(default=0, ge=0, le=1000)
    """Instances of each candidate's config that are rolled out in groups before it is used; 0: no pilot.
    Its score was not found to predict what a stage gains (docs/study.md)."""
    pilot_score: Literal["advantage", "learnability", "grounded"] = "advantage"
    """The pilot's score that chooses among candidates; see `policy.grpo.pilot.PilotScore`."""
    pilot_steps: int = Field(default=0, ge=0, le=1000)
    """Optimizer steps on each candidate's config for the grounded score, on a copy of the policy; 0: no such
    score."""
    pilot_validation: int = Field(default=64, ge=1)
    """Validation instances that the grounded score is measured on, evenly from all of them; all if there are
    no more."""
    anchor_share: float = Field(default=0.0, ge=0, le=1)
    """Share of the default config in every proposal, see `engineer.propose.anchored`."""
    gate: Gate = "off"
    """What a significant drop of the valid rate leads to, see `engineer.gate`."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.candidates > 1 and not self.pilot:
            raise ValueError(
                f"candidates {self.candidates} needs a pilot to choose by; set pilot to 32 or so, or "
                "candidates to 1"
            )
        if self.pilot_steps and not self.pilot:
            raise ValueError(
                f"pilot_steps {self.pilot_steps} is a part of the pilot, which is off; set pilot"
            )
        if self.pilot_score == "grounded" and not self.pilot_steps:
            raise ValueError("pilot_score grounded needs optimizer steps; set pilot_steps to 4 or so")
        return self
