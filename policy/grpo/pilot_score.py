"""What a pilot found: the learning signal to be expected of a config."""

from pydantic import Field

from envgen.breakdown import Rate
from envgen.config import EnvConfig
from envgen.frozen import Frozen


class Mean(Frozen):
    """A mean over groups with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float


class PilotScore(Frozen):
    """The learning signal to be expected of a config."""

    groups: int = Field(ge=1)
    """Instances, each answered by a group."""
    group_size: int = Field(ge=2)
    """Answers to each instance."""
    mixed: Rate
    """Share of groups whose rewards are not all equal: only these teach a group-relative method anything."""
    advantage: Mean
    """Mean absolute advantage of an answer, scaled as in training; about 0 to 1 where that is by the group's
    standard deviation."""
    valid: Mean
    """Share of valid answers."""
    prompt_tokens: int
    completion_tokens: int


class Piloted(Frozen):
    """One config and its score."""

    config: EnvConfig
    score: PilotScore | None
    error: str | None = None
    """Why there is no score."""


class Pilots(Frozen):
    """The scores of all different configs that were proposed after a stage; none if the pilot is off."""

    pilots: tuple[Piloted, ...]
