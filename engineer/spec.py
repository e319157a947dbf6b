"""Which designer a curriculum uses, and how it is asked."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Wording = Literal["full", "compact"]
"""How a prompt is worded: `full` for models that read instructions, `compact` for the shipped tiny policy, which was trained on these very texts."""


class DesignSpec(BaseModel):
    """Who designs, what they are shown, and how a model's answer is drawn."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    designer: str = Field(default="checkpoint", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """A name known to `engineer.registry`: our own designers, and those that installed packages add."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the designer, checked by its own model; see its docstring."""
    variant: str = "V6"
    """A context variant: `engineer.context.VARIANTS`."""
    wording: Wording = "full"
    """`compact` if the model that is asked is the tiny policy."""
    max_tokens: int = Field(default=1024, ge=16)
    temperature: float = Field(default=0.0, ge=0)
    """Of the answer, and of its repair if it cannot be read; 0 is greedy."""
    schema_decoding: bool = True
    """Decode under the JSON schema of the answer."""
