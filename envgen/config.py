"""The environment config: what the generator draws, and all that an engineer may change."""

from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from envgen.frozen import Frozen
from envgen.mapf.problem import MAX_SIZE, MIN_SIZE

MAX_HOLE_RATIO = 0.5
SUM_TOLERANCE = 1e-6

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


class EnvConfig(Frozen):
    """Environment config: map size (3 to 10) -> data_ratio, hole_ratio, wait_ratio."""

    sizes: dict[MapSize, SizeConfig] = Field(min_length=1)

    @model_validator(mode="after")
    def _shares_sum_to_one(self) -> Self:
        total = sum(size.data_ratio for size in self.sizes.values())
        if abs(total - 1) > SUM_TOLERANCE:
            raise ValueError(f"data_ratio sums to {total:.6g} over the map sizes; make the shares sum to 1")
        return self

    def counts(self, total: int) -> dict[int, int]:
        """Instances per map size for a data set of `total`, by largest remainder; they sum to `total`."""
        sizes = sorted(self.sizes)
        whole = sum(
            self.sizes[size].data_ratio for size in sizes
        )  # 1 up to the tolerance, which a large total would show
        exact = [self.sizes[size].data_ratio / whole * total for size in sizes]
        counts = [int(value + SUM_TOLERANCE) for value in exact]
        by_remainder = sorted(range(len(sizes)), key=lambda i: (counts[i] - exact[i], i))
        for i in by_remainder[: total - sum(counts)]:
            counts[i] += 1
        return dict(zip(sizes, counts, strict=True))
