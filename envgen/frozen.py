"""The base class of the product's values."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A value: its fields cannot be set anew, and an unknown field is a ValidationError."""

    model_config = ConfigDict(frozen=True, extra="forbid")
