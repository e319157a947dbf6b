"""Which designer a curriculum uses, and how it is asked."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

DesignerName = Literal["checkpoint", "base", "random", "fixed"]
MODEL_DESIGNERS = ("checkpoint", "base")


class DesignSpec(BaseModel):
    """Who designs, what they are shown, and how a model's answer is drawn."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    designer: DesignerName = "checkpoint"
    """checkpoint: the policy just trained; base: the start policy; random: any legal config; fixed: the default config throughout."""
    variant: str = "V6"
    max_tokens: int = Field(default=1024, ge=16)
    temperature: float = Field(default=0.0, ge=0)
    """Of the first answer; retries are sampled at 1."""
    retries: int = Field(default=2, ge=0, le=10)
    schema_decoding: bool = True
    """Decode under the JSON schema of the answer."""
