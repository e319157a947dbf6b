"""Problems of MAPF-FrozenLake, their ASCII notation and their identities.

A board is square. Rows count from the top, columns from the left, both from 0. Moves are synchronous: every
agent enters a neighbouring cell or waits. Two agents may not be in one cell, nor swap cells; following is
allowed. An agent rests on its goal and blocks it; it may cross its goal earlier and come back, the last
arrival counts.
"""

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise, product
from typing import Annotated, Self

import numpy as np
from pydantic import Field, StrictInt, model_validator

from envgen.errors import excerpt
from envgen.frozen import Frozen

MIN_SIZE, MAX_SIZE = 3, 10
MIN_AGENTS, MAX_AGENTS = 2, 5
"""Of a drawn board; a given one may have one agent."""

Cell = tuple[int, int]
"""(row, column), 0-indexed from the top left."""

_Index = Annotated[StrictInt, Field(ge=0, lt=MAX_SIZE)]
StrictCell = tuple[_Index, _Index]

START_LETTERS, GOAL_LETTERS, FROZEN, HOLE = "SsABC", "Ggabc", "F", "H"
MAX_CHARACTERS = 64_000
"""Maximum length of a text that holds a board."""
_LETTERS = frozenset(START_LETTERS + GOAL_LETTERS + FROZEN + HOLE)
_CELL = re.compile(r"[(\[]\s*([0-9]{1,3})\s*,\s*([0-9]{1,3})\s*[)\]]")

MOVES = {"UP": (-1, 0), "DOWN": (1, 0), "LEFT": (0, -1), "RIGHT": (0, 1), "WAIT": (0, 0)}
"""Name of a move -> (row, column) displacement."""
_NAMES = {offset: name for name, offset in MOVES.items()}

Path = tuple[Cell, ...]
"""The cells one agent visits, from its start to its last arrival at the goal."""

Plan = tuple[Path, ...]
"""A joint plan: one path an agent."""


class Agent(Frozen):
    """Where an agent starts and where it has to end."""

    start: StrictCell
    goal: StrictCell


class Problem(Frozen):
    """One board with its agents. Starts are distinct, goals are distinct, none lies on a hole."""

    id: str = Field(default="", max_length=200)
    size: Annotated[StrictInt, Field(ge=MIN_SIZE, le=MAX_SIZE)]
    """Side length, 3 to 10."""
    holes: tuple[StrictCell, ...] = Field(max_length=MAX_SIZE * MAX_SIZE)
    agents: tuple[Agent, ...] = Field(min_length=1, max_length=MAX_AGENTS)

    @model_validator(mode="after")
    def _check_cells(self) -> Self:
        starts, goals = [a.start for a in self.agents], [a.goal for a in self.agents]
        for name, cells in (("hole", self.holes), ("start", starts), ("goal", goals)):
            if len(set(cells)) != len(cells):
                raise ValueError(f"a {name} is listed twice; give each a cell that no other {name} has")
            for cell in cells:
                if max(cell) >= self.size:
                    board, limits = f"the {self.size}x{self.size} board", f"run from 0 to {self.size - 1}"
                    raise ValueError(f"{name} {cell} lies outside {board}; rows and columns {limits}")
                if name != "hole" and cell in self.holes:
                    raise ValueError(f"{name} {cell} lies on a hole; move it to a frozen cell")
        return self

    @property
    def num_agents(self) -> int:
        """How many agents share the board, 1 to 5."""
        return len(self.agents)


class Solution(Frozen):
    """What the solver says of a solvable problem. Costs are steps; an agent's cost is its last arrival."""

    sum_of_costs: int = Field(ge=0)
    makespan: int = Field(ge=0)
    """Length of the longest path of the returned plan, which is optimal in the sum of costs."""
    wait_required: bool
    """With waiting before arrival forbidden, the best sum of costs is strictly worse, or no plan exists."""
    waits: int = Field(ge=0)
    """Waits before last arrivals of the returned plan; no plan of the same sum of costs has fewer."""
    plan: Plan


class Instance(Frozen):
    """A solvable problem with its solution; `problem.id` is its canonical identity."""

    problem: Problem
    solution: Solution

    @model_validator(mode="after")
    def _plan_solves_the_problem(self) -> Self:
        plan, agents = self.solution.plan, self.problem.agents
        if [(path[:1], path[-1:]) for path in plan] != [((a.start,), (a.goal,)) for a in agents]:
            raise ValueError("solution.plan: does not lead each agent from its start to its goal")
        costs = [len(path) - 1 for path in plan]
        if (sum(costs), max(costs)) != (self.solution.sum_of_costs, self.solution.makespan):
            raise ValueError("solution: sum_of_costs and makespan do not fit the plan")
        if any(step not in _NAMES for path in plan for step in _steps(path)):
            raise ValueError("solution.plan: a path jumps over a cell")
        return self

    @property
    def id(self) -> str:
        """Its canonical identity."""
        return self.problem.id

    @property
    def stratum(self) -> str:
        """Its map size."""
        return str(self.problem.size)

    @property
    def labels(self) -> frozenset[str]:
        """`wait_required`, if an optimal plan needs a wait."""
        return frozenset(["wait_required"]) if self.solution.wait_required else frozenset()


def moves_of(path: Path) -> list[str]:
    """Return the names of the moves along a path of neighbouring cells."""
    return [_NAMES[step] for step in _steps(path)]


def _steps(path: Path) -> list[Cell]:
    return [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(path)]


def to_text(problem: Problem) -> str:
    """The ASCII notation: the grid as letters, then one line an agent.

    Starts are S s A B C and goals G g a b c for agents 0..4, F is frozen, H a hole. Where a start and a goal
    share a cell the start's letter is shown; the agent lines hold the truth.
    """
    letters, cells = dict.fromkeys(problem.holes, HOLE) | _letters(problem.agents), range(problem.size)
    lines = [" ".join(letters.get((row, column), FROZEN)[0] for column in cells) for row in cells]
    return "\n".join([*lines, *agent_lines(problem)])


def _letters(agents: Sequence[Agent]) -> dict[Cell, str]:
    """Return the letters that the cell of a start or goal may hold, a start's before a goal's."""
    letters = {agent.start: letter for agent, letter in zip(agents, START_LETTERS, strict=False)}
    for agent, letter in zip(agents, GOAL_LETTERS, strict=False):
        letters[agent.goal] = letters.get(agent.goal, "") + letter
    return letters


def agent_lines(problem: Problem) -> list[str]:
    """Return `Agent 0: (0,1) to (2,3)` of each agent."""
    return [f"Agent {i}: {cell_text(a.start)} to {cell_text(a.goal)}" for i, a in enumerate(problem.agents)]


def from_text(text: str, id: str = "") -> Problem:
    """Return the board in `text`: a grid of n rows of n letters, set apart by blanks, and below it a line
    with two cells `(row, column)`, start and goal, for each agent in order.

    Other lines are ignored. ValueError for a text that is too long or has no such grid, for a cell whose
    letter contradicts the agent lines, and as `Problem`.
    """
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"the text has {len(text)} characters, {MAX_CHARACTERS} are read; shorten it")
    lines = text.split("\n")
    rows = [(number, line.split()) for number, line in enumerate(lines)]
    rows = [(number, row) for number, row in rows if row and _LETTERS.issuperset(row)]
    grid, lengths = [row for _, row in rows], [len(row) for _, row in rows]
    if set(lengths) != {len(grid)}:
        raise ValueError(
            f"rows of {excerpt(lengths)} letters are no square grid; expected one grid of n rows with n "
            f"letters each, set apart by blanks, of {''.join(sorted(_LETTERS))}"
        )
    holes = tuple((r, c) for r, row in enumerate(grid) for c, letter in enumerate(row) if letter == HOLE)
    cells = [_CELL.findall(line) for line in lines[rows[-1][0] :]]
    ends = [[(int(row), int(column)) for row, column in pair] for pair in cells if len(pair) == 2]
    agents = tuple(Agent(start=start, goal=goal) for start, goal in ends)
    problem, letters = Problem(id=id, size=len(grid), holes=holes, agents=agents), _letters(agents)
    for row, column in product(range(len(grid)), range(len(grid))):
        letter, expected = grid[row][column], letters.get((row, column), FROZEN + HOLE)
        if letter not in expected:
            raise ValueError(
                f"cell {cell_text((row, column))} of the grid holds {letter!r}, the agent lines ask for "
                f"{' or '.join(expected)} there; correct the grid or the lines"
            )
    return problem


def cell_text(cell: Cell) -> str:
    """`(row,column)`, the way cells are written in prompts and answers."""
    return f"({cell[0]},{cell[1]})"


def identity(problem: Problem) -> str:
    """Return a hash (32 hex digits) that is equal for problems equal up to symmetry and the agents' order."""
    size = problem.size
    holes = [row * size + column for row, column in problem.holes]
    agents = [[row * size + column for row, column in (a.start, a.goal)] for a in problem.agents]
    forms = [
        (sorted(image[cell] for cell in holes), sorted((image[start], image[goal]) for start, goal in agents))
        for image in _symmetries(size)
    ]
    return hashlib.sha256(repr((size, min(forms))).encode()).hexdigest()[:32]


@cache
def _symmetries(size: int) -> tuple[list[int], ...]:
    """Return the number of each cell's image under each of the 8 symmetries of the square."""
    grid = np.arange(size * size).reshape(size, size)
    return tuple(np.rot90(side, turns).ravel().tolist() for side in (grid, grid.T) for turns in range(4))
