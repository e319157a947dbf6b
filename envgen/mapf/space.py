"""Options of MAPF-FrozenLake, the configs that it takes, and the texts that describe them."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from envgen.frozen import Frozen
from envgen.mapf.problem import MAX_AGENTS, MAX_SIZE, MIN_AGENTS, MIN_SIZE
from envgen.mapf.verifier import FailureCategory
from envgen.space import Knob, Label, Space, Stratum

WAIT_REQUIRED = "wait_required"
MAX_HOLE_RATIO = 0.5
MapSize = Annotated[int, Field(ge=MIN_SIZE, le=MAX_SIZE)]


class Options(Frozen):
    """Which boards there are."""

    agents: int = Field(default=2, ge=MIN_AGENTS, le=MAX_AGENTS)
    """On each board."""
    map_sizes: tuple[MapSize, ...] = Field(default=tuple(range(MIN_SIZE, MAX_SIZE + 1)), min_length=1)
    """Map sizes that a config names, ascending."""
    min_hole_ratio: Annotated[float, Field(ge=0, le=MAX_HOLE_RATIO)] = 0.0
    max_hole_ratio: Annotated[float, Field(ge=0, le=MAX_HOLE_RATIO)] = MAX_HOLE_RATIO
    max_wait_ratio: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Above it, a policy may learn to wait where no wait is needed."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if list(self.map_sizes) != sorted(set(self.map_sizes)):
            raise ValueError(f"map_sizes {list(self.map_sizes)} must ascend without repeats")
        if self.min_hole_ratio > self.max_hole_ratio:
            low, high = self.min_hole_ratio, self.max_hole_ratio
            raise ValueError(f"min_hole_ratio {low} exceeds max_hole_ratio {high}")
        return self


def space_of(options: Options) -> Space:
    """The space of boards; every word of the design question that is about boards stands here."""
    holes = Knob(
        name="hole_ratio",
        word="holes",
        low=options.min_hole_ratio,
        high=options.max_hole_ratio,
        step=0.1,
        description="the share of the cells that are holes",
        digits=2,
        limits=(0, MAX_HOLE_RATIO),
    )
    waits = Knob(
        name="wait_ratio",
        word="waits",
        high=options.max_wait_ratio,
        step=0.25,
        description="the share of its instances that cannot be solved at the least cost "
        "unless some agent waits",
        limits=(0, 1),
        label=Label(
            name=WAIT_REQUIRED, condition="an optimal plan needs a wait", present="where a wait is needed"
        ),
    )
    return Space(
        strata=tuple(
            Stratum(name=str(size), label=f"{size}x{size}", knobs=(holes, waits))
            for size in options.map_sizes
        ),
        key="sizes",
        noun="map size",
        task="plans moves for several agents over square grids with holes: all reach their goals without "
        "collisions, at the least sum of costs",
        guideline="Ask for more waits where plans are valid but boards that need one are not mostly solved; "
        "for fewer where plans mostly fail. More holes only where nearly all is solved.",
        categories=tuple(FailureCategory),
        terms=("arrived", "legal_share"),
        measures={"excess_cost": "valid plans cost %.2f more than the optimum on average"},
        best="optimal",
    )
