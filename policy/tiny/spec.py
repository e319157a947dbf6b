"""The recipe of the start policy. Imports without torch."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from envgen.config import MapSize
from envgen.problem import MAX_AGENTS
from envgen.sampler import MIN_AGENTS


class BootstrapRecipe(BaseModel):
    """Corpus, shape and training of the start policy."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    seed: int = 0
    agents: tuple[Annotated[int, Field(ge=MIN_AGENTS, le=MAX_AGENTS)], ...] = Field(default=(2,), min_length=1)
    map_sizes: tuple[MapSize, ...] = Field(default=(3, 4, 5, 6), min_length=1)
    hole_ratios: tuple[float, ...] = (0.2, 0.3, 0.4)
    wait_ratio: float = Field(default=0, ge=0, le=1)
    """Share of the boards drawn that need a wait."""
    boards: int = Field(default=24_000, ge=1)
    """Boards, in equal parts of every number of agents, map size and hole ratio as far as there are that many."""
    designs: int = Field(default=7_000, ge=0)
    """Design questions with the rule's answer."""
    design_sizes: tuple[MapSize, ...] = (3, 4, 5, 6)
    """Map sizes of the configs in these questions."""
    design_variants: tuple[str, ...] = ()
    """Context variants of these questions; those of `engineer.lessons.TAUGHT` if left out."""
    hidden_size: int = 128
    layers: int = 4
    heads: int = 4
    learning_rate: float = Field(default=3e-3, gt=0)
    steps: int = Field(default=2800, ge=1)
    batch_size: int = Field(default=32, ge=1)


class BootstrapSpec(BaseModel):
    """What the bootstrap child is told."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    recipe: BootstrapRecipe
    examples: Path
    """(prompt, completion) rows to learn."""
    output: Path
    continue_from: Path | None = None
    """A start policy to train further; its tokenizer is kept. A new one is made if left out."""
