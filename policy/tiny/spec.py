"""The recipe of the start policy. Imports without torch."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from engineer.context import ConfigSpace


class CorpusConfig(BaseModel):
    """How many examples of which kind."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    seed: int = 0
    agents: int = 2
    map_sizes: tuple[int, ...] = (3, 4, 5, 6)
    hole_ratios: tuple[float, ...] = (0.2, 0.3, 0.4)
    boards: int = Field(default=24_000, ge=1)
    """Boards that need no wait, in equal parts of every map size and hole ratio as far as there are that many."""
    designs: int = Field(default=7_000, ge=0)
    """Design questions with the rule's answer."""

    @property
    def space(self) -> ConfigSpace:
        """The config space of the design questions."""
        return ConfigSpace(map_sizes=self.map_sizes, min_hole_ratio=min(self.hole_ratios), max_hole_ratio=max(self.hole_ratios))


class BootstrapSpec(BaseModel):
    """The recipe of the start policy."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    output: Path
    corpus: CorpusConfig = CorpusConfig()
    held_out: tuple[str, ...] = ()
    """Canonical identities that must not be trained on."""
    hidden_size: int = 128
    layers: int = 4
    heads: int = 4
    learning_rate: float = Field(default=3e-3, gt=0)
    steps: int = Field(default=3000, ge=1)
    batch_size: int = Field(default=32, ge=1)
    seed: int = 0
    workers: int = Field(default=2, ge=1)
