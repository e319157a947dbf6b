"""The recipe of the base policy. Imports without torch."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from envgen.frozen import Frozen
from envgen.mapf.config import MAX_HOLE_RATIO, MapSize
from envgen.mapf.problem import MAX_AGENTS, MIN_AGENTS

RECIPE = Path(__file__).parent / "recipe.yaml"
"""The recipe of the shipped base policy."""
HoleRatio = Annotated[float, Field(ge=0, le=MAX_HOLE_RATIO)]


class Boards(Frozen):
    """Boards with one number of agents."""

    agents: int = Field(ge=MIN_AGENTS, le=MAX_AGENTS)
    weight: float = Field(gt=0)
    """Share of all boards, before the shares are scaled to sum to 1."""
    map_sizes: dict[MapSize, Annotated[float, Field(gt=0)]] = Field(min_length=1)
    """Map size -> share of these boards, before the shares are scaled to sum to 1."""
    hole_ratios: tuple[HoleRatio, ...] = Field(min_length=1)
    """In equal parts."""
    wait_ratio: float = Field(default=0.03, ge=0, le=1)
    """Share of the boards that need a wait; on 3x3 maps, where few such boards exist, none do."""


class BootstrapRecipe(Frozen):
    """Corpus, shape and training of the base policy."""

    seed: int = Field(default=0, ge=0)
    hidden_size: int = Field(ge=8)
    layers: int = Field(ge=1)
    heads: int = Field(ge=1)
    boards: tuple[Boards, ...] = Field(min_length=1)
    steps: int = Field(ge=2)
    """Optimizer steps, each on one batch."""
    warmup_steps: int = Field(default=100, ge=0)
    decay_from: float = Field(default=0.5, ge=0, le=1)
    """Share of the steps after which the learning rates fall, linearly, to 2 % of their peak."""
    designs_from: float = Field(default=0.5, ge=0, le=1)
    """Share of the steps after which the design task is taught beside the boards."""
    designs_every: int = Field(default=3, ge=2)
    """From then on every so many batches one is of design questions."""
    batch_size: int = Field(default=128, ge=1)
    """Boards of a batch."""
    design_batch_size: int = Field(default=32, ge=1)
    """Design questions of a batch."""
    muon_learning_rate: float = Field(default=0.02, gt=0)
    """Peak, of the weight matrices."""
    adamw_learning_rate: float = Field(default=4e-3, gt=0)
    """Peak, of embeddings and norms."""
    save_steps: int = Field(default=500, ge=1)
    """Steps from one complete checkpoint, and one evaluation, to the next."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.hidden_size % (2 * self.heads):
            raise ValueError(
                f"hidden_size {self.hidden_size} does not give {self.heads} heads an even number of "
                "dimensions each"
            )
        if self.warmup_steps > self.decay_from * self.steps:
            raise ValueError(
                f"warmup_steps {self.warmup_steps} end after decay_from {self.decay_from:g} of {self.steps} "
                "steps; warm up for less"
            )
        return self


class BootstrapSpec(Frozen):
    """What the bootstrap child is told."""

    recipe: BootstrapRecipe
    held_out: Path
    """JSON list of the identities of boards that must not be taught."""
    designs: Path
    """Design questions with the answers to learn."""
    evaluation: Path
    """Boards to evaluate on, a data set."""
    work: Path
    """Checkpoints of the trainer."""
    output: Path
