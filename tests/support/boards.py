"""A few named boards."""

from collections.abc import Mapping, Sequence
from typing import Any

from envgen.config import EnvConfig
from envgen.environment import Source
from envgen.mapf.problem import MOVES, Cell, Instance, Path, Problem, Solution, from_text
from envgen.mapf.solver.solve import solve_many
from envgen.registry import EnvironmentSpec
from envgen.sampling import sample

_TEXTS = {
    # Shortest paths that never meet.
    "parallel": """
        S F G
        F F F
        s F g
        Agent 0: (0,0) to (0,2)
        Agent 1: (2,0) to (2,2)
    """,
    # One corridor with a bay: somebody has to step aside.
    "bay": """
        S F F s
        H F H H
        H H H H
        H H H H
        Agent 0: (0,0) to (0,3)
        Agent 1: (0,3) to (0,0)
    """,
    # Both want to pass the centre at the same time, and no detour is as short as one wait.
    "crossing": """
        H S H
        s F g
        H G H
        Agent 0: (0,1) to (2,1)
        Agent 1: (1,0) to (1,2)
    """,
    # Wrong cyclic order on a ring: every goal is reachable, the problem is not solvable.
    "ring-order": """
        S F s
        F H F
        F F A
        Agent 0: (0,0) to (0,0)
        Agent 1: (0,2) to (2,2)
        Agent 2: (2,2) to (0,2)
    """,
    # Two agents in a dead-end corridor that want to change places: not solvable.
    "swap-corridor": """
        S F s
        H H H
        H H H
        Agent 0: (0,0) to (0,2)
        Agent 1: (0,2) to (0,0)
    """,
    # A public conflict-based solver reports 23 here; the optimum is 22.
    "corridor-22": """
        F F F F A H F F
        F H F s H F H F
        G F a F F H F H
        H F F H b H F H
        F F B F S F F F
        F F F F F F g F
        F F F F F F F F
        F H H F F F F F
        Agent 0: (4,4) to (2,0)
        Agent 1: (1,3) to (5,6)
        Agent 2: (0,4) to (2,2)
        Agent 3: (4,2) to (3,4)
    """,
    # Narrow corridors: five agents spend 67 moves and waits more than their distances.
    "corridors-120": """
        B H F H F F F F
        F F F F g H H F
        F H H a F H H F
        F H H H H H H F
        F H F C F H c F
        H F H H G F s H
        F H F S F H H F
        H F H b A F F F
        Agent 0: (6,3) to (5,4)
        Agent 1: (5,6) to (1,4)
        Agent 2: (7,4) to (2,3)
        Agent 3: (0,0) to (7,3)
        Agent 4: (4,3) to (4,6)
    """,
}


def board(name: str) -> Problem:
    """A named board as a problem; KeyError for an unknown name."""
    return from_text(_TEXTS[name], id=name)


def solve(problem: Problem) -> Solution | None:
    """Return the solver's answer to one problem."""
    return solve_many([problem])[0]


def boards_config(sizes: Mapping[int, tuple[float, float, float]]) -> EnvConfig:
    """Map size -> (data_ratio, hole_ratio, wait_ratio), as an environment config."""
    names = ("data_ratio", "hole_ratio", "wait_ratio")
    parts = {str(size): dict(zip(names, ratios, strict=True)) for size, ratios in sizes.items()}
    return EnvConfig.model_validate({"sizes": parts})


def sample_boards(
    config: EnvConfig, count: int, agents: int = 2, held_out: frozenset[str] = frozenset(), **source: Any
) -> list[Instance]:
    """Distinct boards of a config; `source` holds seed, stage and purpose."""
    environment = EnvironmentSpec(options={"agents": agents}).load()
    return sample(environment, config, count, Source(**{"seed": 0, **source}), held_out)[0]


def path_of(start: Cell, moves: Sequence[str]) -> Path:
    """Return the cells visited from `start`."""
    path = [start]
    for name in moves:
        row, column = MOVES[name]
        path.append((path[-1][0] + row, path[-1][1] + column))
    return tuple(path)
