"""A test suite of boards that nothing in the loop sees, drawn for a study."""

from collections.abc import Collection, Mapping, Sequence
from itertools import product
from typing import Annotated, Any, ClassVar

from pydantic import Field

from envgen.mapf.benchmark import suite_identities
from envgen.mapf.config import MAX_HOLE_RATIO, BoardsConfig, MapSize, SizeConfig
from envgen.mapf.problem import MAX_AGENTS, MIN_AGENTS, Instance
from envgen.mapf.sampler import sample
from envgen.suites import TestSuite

Ratio = Annotated[float, Field(ge=0, le=1)]


class BoardSuite(TestSuite):
    """Of each number of agents, map size, wait ratio and hole ratio the same number of instances."""

    noun: ClassVar = "boards"
    scores: ClassVar = {
        "wait_ratio": "share of boards that need a wait",
        "size": "mean map size",
        "hole_ratio": "hole ratio",
    }
    followed: ClassVar = ("wait_ratio", "share of training boards that need a wait")
    boards: dict[Annotated[int, Field(ge=MIN_AGENTS, le=MAX_AGENTS)], tuple[MapSize, ...]] = Field(
        min_length=1
    )
    """Number of agents -> map sizes."""
    wait_ratios: tuple[Ratio, ...] = Field(min_length=1)
    hole_ratios: tuple[Annotated[float, Field(ge=0, le=MAX_HOLE_RATIO)], ...] = Field(min_length=1)
    instances: int = Field(ge=1)
    """Instances of each combination."""
    seed: int = Field(ge=0)

    def draw(self) -> list[Instance]:
        """See `TestSuite`; none is of the benchmark suite."""
        found: list[Instance] = []
        kinds = [(agents, size) for agents, sizes in self.boards.items() for size in sizes]
        for (agents, size), wait, hole in product(kinds, self.wait_ratios, self.hole_ratios):
            config = BoardsConfig(sizes={size: SizeConfig(data_ratio=1, hole_ratio=hole, wait_ratio=wait)})
            held_out = suite_identities(agents).union(instance.id for instance in found)
            chosen = {"agents": agents, "seed": self.seed, "purpose": f"test-{wait}-{hole}-{size}"}
            found += sample(config, self.instances, held_out=held_out, **chosen)[0]
        return found

    def check(self, options: Mapping[str, Any], strata: Collection[str]) -> None:
        """ValueError if boards with as many agents have a map size that is trained or validated on."""
        agents = options["agents"]
        if seen := set(map(int, strata)) & set(self.boards.get(agents, ())):
            same = f"{sorted(seen)} are trained on or validated on, so that the test is no transfer"
            raise ValueError(f"boards.{agents}: {same}; leave them out")

    @property
    def words(self) -> str:
        """Numbers of agents with their map sizes, a line each, then the ratios."""
        kinds = [
            f"{agents} agents on {', '.join(map(_square, sizes))};" for agents, sizes in self.boards.items()
        ]
        waits, holes = (", ".join(map(str, ratios)) for ratios in (self.wait_ratios, self.hole_ratios))
        return "\n".join([*kinds, f"wait ratios {waits}, hole ratios {holes}"])

    @staticmethod
    def trained(options: Mapping[str, Any]) -> str:
        """Number of agents and map sizes."""
        return f"{options['agents']} agents and map sizes {', '.join(map(str, options['map_sizes']))}"

    @staticmethod
    def parts(instances: Sequence[Instance]) -> list[tuple[str, list[bool]]]:
        """By number of agents and map size, then by whether a wait is needed."""
        kinds = [(instance.problem.num_agents, instance.problem.size) for instance in instances]
        waits = [instance.solution.wait_required for instance in instances]
        return [
            *(
                (f"{kind[0]} agents, {_square(kind[1])}", [one == kind for one in kinds])
                for kind in sorted(set(kinds))
            ),
            ("a wait is needed", waits),
            ("no wait is needed", [not needed for needed in waits]),
        ]

    @staticmethod
    def registered(preset: dict[str, Any]) -> dict[str, Any]:
        """The words of the first registrations, in which a preset that named no pilot had one of 32."""
        options, validation = preset.get("family", {}).get("options", {}), preset.get("validation", {})
        others = {name: value for name, value in validation.items() if name not in ("grid", "strata")}
        ratios = {f"{name}s": values for name, values in validation.get("grid", {}).items()}
        sizes = {"map_sizes": [int(name) for name in validation["strata"]]} if "strata" in validation else {}
        words = {
            "agents": options.get("agents"),
            "space": {name: value for name, value in options.items() if name != "agents"},
            "validation": {**ratios, **sizes, **others},
        }
        engineer = preset.get("engineer", {})
        others = {name: value for name, value in engineer.items() if (name, value) != ("pilot", 32)}
        words["design"] = {"designer" if name == "name" else name: value for name, value in others.items()}
        renamed = ("description", "family", "engineer")
        known = {name: value for name, value in preset.items() if name not in renamed}
        return known | {name: value for name, value in words.items() if value}


def _square(size: int) -> str:
    return f"{size}×{size}"
