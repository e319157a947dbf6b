"""Random boards for the tests of `envgen`: from a seeded generator, and as hypothesis strategies."""

import random

from hypothesis import settings
from hypothesis import strategies as st
from support.boards import solve

from envgen.mapf.problem import MAX_SIZE, MIN_SIZE, Agent, Cell, Instance, Path, Plan, Problem

repeatable = settings(derandomize=True, deadline=None, max_examples=50)


def make_problem(
    size: int, holes: tuple[Cell, ...], starts: tuple[Cell, ...], goals: tuple[Cell, ...]
) -> Problem:
    return Problem(
        size=size,
        holes=holes,
        agents=tuple(Agent(start=s, goal=g) for s, g in zip(starts, goals, strict=True)),
    )


def all_cells(size: int) -> list[Cell]:
    return [(r, c) for r in range(size) for c in range(size)]


def random_problem(rng: random.Random, size: int, holes: int, agents: int) -> Problem:
    cells = rng.sample(all_cells(size), size * size)
    free = cells[holes:]
    return make_problem(
        size, tuple(cells[:holes]), tuple(rng.sample(free, agents)), tuple(rng.sample(free, agents))
    )


def solved_instances(seed: int, count: int, size: int, holes: int, agents: int) -> list[Instance]:
    rng = random.Random(seed)
    found: list[Instance] = []
    while len(found) < count:
        problem = random_problem(rng, size, holes, agents)
        solution = solve(problem)
        if solution is not None:
            found.append(Instance(problem=problem, solution=solution))
    return found


@st.composite
def problems(
    draw: st.DrawFn, max_size: int = MAX_SIZE, max_agents: int = 5, max_hole_share: float = 0.4
) -> Problem:
    size = draw(st.integers(MIN_SIZE, max_size))
    agents = draw(st.integers(1, max_agents))
    cells = draw(st.permutations(all_cells(size)))
    holes = draw(st.integers(0, int(max_hole_share * size * size)))
    free = cells[holes:]
    goals = draw(st.permutations(free))
    return make_problem(size, tuple(cells[:holes]), tuple(free[:agents]), tuple(goals[:agents]))


SYMMETRIES = [
    (transpose, rows, columns)
    for transpose in (False, True)
    for rows in (False, True)
    for columns in (False, True)
]


def image(size: int, cell: Cell, symmetry: tuple[bool, bool, bool]) -> Cell:
    """Where a symmetry of the square takes a cell."""
    transpose, flip_rows, flip_columns = symmetry
    row, column = cell[::-1] if transpose else cell
    return (size - 1 - row if flip_rows else row, size - 1 - column if flip_columns else column)


def transformed(
    problem: Problem, symmetry: tuple[bool, bool, bool], order: list[int] | None = None
) -> Problem:
    """The same board seen in a mirror or turned, with its agents in another order."""

    def moved(cell: Cell) -> Cell:
        return image(problem.size, cell, symmetry)

    agents = [problem.agents[i] for i in order or range(problem.num_agents)]
    return make_problem(
        problem.size,
        tuple(map(moved, problem.holes)),
        tuple(moved(a.start) for a in agents),
        tuple(moved(a.goal) for a in agents),
    )


def replaced(plan: Plan, agent: int, path: Path) -> Plan:
    return (*plan[:agent], path, *plan[agent + 1 :])


def at(path: Path, step: int) -> Cell:
    return path[min(step, len(path) - 1)]


def apart(one: Cell, other: Cell) -> int:
    return abs(one[0] - other[0]) + abs(one[1] - other[1])
