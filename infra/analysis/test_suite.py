"""A test suite of boards that nothing in the loop sees, drawn for a study."""

from itertools import product
from typing import Annotated

from pydantic import Field

from envgen.frozen import Frozen
from envgen.mapf.benchmark import suite_identities
from envgen.mapf.config import MAX_HOLE_RATIO, BoardsConfig, MapSize, SizeConfig
from envgen.mapf.problem import MAX_AGENTS, MIN_AGENTS, Instance
from envgen.mapf.sampler import sample

Ratio = Annotated[float, Field(ge=0, le=1)]


class TestSuite(Frozen):
    """Of each number of agents, map size, wait ratio and hole ratio the same number of instances."""

    __test__ = False
    boards: dict[Annotated[int, Field(ge=MIN_AGENTS, le=MAX_AGENTS)], tuple[MapSize, ...]] = Field(
        min_length=1
    )
    """Number of agents -> map sizes."""
    wait_ratios: tuple[Ratio, ...] = Field(min_length=1)
    hole_ratios: tuple[Annotated[float, Field(ge=0, le=MAX_HOLE_RATIO)], ...] = Field(min_length=1)
    instances: int = Field(ge=1)
    """Instances of each combination."""
    seed: int = Field(ge=0)
    answer_tokens: int = Field(ge=8)
    """Longest answer."""

    def draw(self) -> list[Instance]:
        """The instances, the same on every machine, none of the benchmark suite.

        SamplingError if there are too few.
        """
        found: list[Instance] = []
        kinds = [(agents, size) for agents, sizes in self.boards.items() for size in sizes]
        for (agents, size), wait, hole in product(kinds, self.wait_ratios, self.hole_ratios):
            config = BoardsConfig(sizes={size: SizeConfig(data_ratio=1, hole_ratio=hole, wait_ratio=wait)})
            held_out = suite_identities(agents).union(instance.id for instance in found)
            chosen = {"agents": agents, "seed": self.seed, "purpose": f"test-{wait}-{hole}-{size}"}
            found += sample(config, self.instances, held_out=held_out, **chosen)[0]
        return found
