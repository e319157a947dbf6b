"""What is drawn of each map size: the environment config in the words of this family."""

from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from envgen.config import SUM_TOLERANCE, EnvConfig, largest_remainder
from envgen.frozen import Frozen
from envgen.mapf.problem import MAX_SIZE, MIN_SIZE

MAX_HOLE_RATIO = 0.5
MapSize = Annotated[int, Field(ge=MIN_SIZE, le=MAX_SIZE)]


class SizeConfig(Frozen):
    """What is drawn of one map size."""

    model_config = ConfigDict(allow_inf_nan=False)
    data_ratio: float = Field(ge=0, le=1)
    """Share of the instances that have this map size; the shares of all sizes sum to 1."""
    hole_ratio: float = Field(ge=0, le=MAX_HOLE_RATIO)
    """Share of cells that are holes, rounded down to whole cells."""
    wait_ratio: float = Field(ge=0, le=1)
    """Share of this size's instances whose optimal solution needs at least one wait."""


class BoardsConfig(Frozen):
    """Map size (3 to 10) -> data_ratio, hole_ratio, wait_ratio."""

    sizes: dict[MapSize, SizeConfig] = Field(min_length=1)

    @model_validator(mode="after")
    def _shares_sum_to_one(self) -> Self:
        total = sum(size.data_ratio for size in self.sizes.values())
        if abs(total - 1) > SUM_TOLERANCE:
            raise ValueError(f"data_ratio sums to {total:.6g} over the map sizes; make the shares sum to 1")
        return self

    @classmethod
    def of(cls, config: EnvConfig) -> Self:
        """The config of any family as one of boards; ValidationError if it is none."""
        return cls.model_validate({"sizes": config.model_dump()[config.key]})

    @property
    def config(self) -> EnvConfig:
        """The same as the config of any family."""
        return EnvConfig.model_validate(self.model_dump(mode="json"))

    def counts(self, total: int) -> dict[int, int]:
        """Instances per map size for a data set of `total`, by largest remainder; they sum to `total`."""
        return largest_remainder({size: self.sizes[size].data_ratio for size in sorted(self.sizes)}, total)
