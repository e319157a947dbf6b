"""Boards as the public MAPF-FrozenLake benchmark poses them: in a text a grid of letters and a line an agent.

How the agent lines are worded is left open: a line counts that begins with `Agent` and a number and holds
cells `(row, column)`. The first cell is the start, the second the goal. Work is bounded: texts are short,
every line is read once.
"""

import re

from pydantic import BaseModel, ConfigDict, Field, StrictInt

from envgen.errors import shown
from envgen.mapf.problem import (
    FROZEN,
    GOAL_LETTERS,
    HOLE,
    MAX_AGENTS,
    MAX_SIZE,
    MIN_SIZE,
    START_LETTERS,
    Cell,
    Problem,
    cell_text,
    from_text,
)

MAX_CHARACTERS = 64_000
"""Characters of a text at most."""

_LETTERS = frozenset(START_LETTERS + GOAL_LETTERS + FROZEN + HOLE)
_AGENT = re.compile(r"[^\w(\[]*agent[ \t_#]*([0-9]{1,3})\b", re.IGNORECASE)
_PAIR = re.compile(r"[(\[]\s*(-?[0-9]+)\s*,\s*(-?[0-9]+)\s*[)\]]")

Line = tuple[int, str]
"""Line number, from 1, and the line."""


class BenchmarkRow(BaseModel):
    """A row of the public data set; other columns are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    sample_id: str = Field(max_length=200)
    num_agents: StrictInt
    text: str
    subset: str = Field(default="", max_length=40)
    """Wait subset, where a file says it; not a column of the public data set, which has a config for each."""

    def problem(self) -> Problem:
        """The problem of the text, its id is `sample_id`; ValueError if text and `num_agents` disagree."""
        problem = from_benchmark_text(self.text, self.sample_id)
        if problem.num_agents != self.num_agents:
            raise ValueError(
                f"num_agents is {self.num_agents}, but the text places {problem.num_agents} agents; "
                "correct one of them"
            )
        return problem


def from_benchmark_text(text: str, id: str = "") -> Problem:
    """The one board in `text`: a grid of n rows of n letters, and the agent lines after it, if any.

    n is between 3 and 10, and the grid is set apart by blanks. Agent lines and letters must agree; where a
    start and a goal share a cell, the lines decide, and so they do for a grid that shows no agent. Without
    agent lines every start and goal must be shown. ValueError names line or cell.
    """
    if len(text) > MAX_CHARACTERS:
        raise ValueError(
            f"the text has {len(text)} characters, at most {MAX_CHARACTERS} are read; "
            "cut it down to the board"
        )
    lines = list(enumerate(text.split("\n"), start=1))
    grid, after = _grid(lines)
    rows = "\n".join(" ".join(row) for row in grid)
    cells = _agent_cells(lines[after:], len(grid)) or _agent_cells(lines[: after - len(grid)], len(grid))
    if not cells:
        return from_text(rows, id)
    _check_against_letters(grid, cells)
    return from_text(
        "\n".join(
            [
                rows,
                *(
                    f"Agent {i}: {cell_text(start)} to {cell_text(goal)}"
                    for i, (start, goal) in enumerate(cells)
                ),
            ]
        ),
        id,
    )


def _grid(lines: list[Line]) -> tuple[list[list[str]], int]:
    """Letters of the only square grid, and how many lines there are up to its end."""
    runs: list[list[tuple[int, list[str]]]] = []
    for number, line in lines:
        row = line.split()
        if not (MIN_SIZE <= len(row) <= MAX_SIZE and _LETTERS.issuperset(row)):
            continue
        if runs and runs[-1][-1][0] == number - 1 and len(runs[-1][-1][1]) == len(row):
            runs[-1].append((number, row))
        else:
            runs.append([(number, row)])
    boards = [run for run in runs if len(run) == len(run[0][1])]
    if len(boards) == 1:
        return [row for _, row in boards[0]], boards[0][-1][0]
    if boards:
        raise ValueError(
            f"grids begin at lines {boards[0][0][0]} and {boards[1][0][0]}; "
            "leave only the board that is meant"
        )
    expected = (
        f"expected one grid of n rows with n letters each, n from {MIN_SIZE} to {MAX_SIZE}, "
        f"set apart by blanks, of {''.join(sorted(_LETTERS))}"
    )
    if not runs:
        raise ValueError(f"no grid found; {expected}")
    longest = max(runs, key=len)
    raise ValueError(f"line {longest[0][0]}: {len(longest)} rows of {len(longest[0][1])} letters; {expected}")


def _agent_cells(lines: list[Line], size: int) -> list[tuple[Cell, Cell]]:
    """(start, goal) of each agent, from the first block of agent lines; blank lines do not end a block."""
    found: list[tuple[Cell, Cell]] = []
    first = 0
    for number, line in lines:
        match = _AGENT.match(line)
        pairs = _PAIR.findall(line, match.end()) if match else []
        if not match or not pairs:
            if found and line.strip():
                break
            continue
        if len(pairs) != 2:
            raise ValueError(
                f"line {number}: {len(pairs)} cells in {shown(line.strip())}; expected a start and a goal, "
                "as in 'Agent 0: (0, 1) to (2, 3)'"
            )
        named = int(match[1])
        if not found:
            first = named
        if first not in (0, 1) or named != first + len(found):
            raise ValueError(
                f"line {number}: agent {named} where agent {len(found)} is expected; "
                "list the agents in order, counted from 0 (or from 1)"
            )
        if len(found) == MAX_AGENTS:
            raise ValueError(
                f"line {number}: more than {MAX_AGENTS} agents; a board holds at most {MAX_AGENTS}"
            )
        start, goal = (_cell(number, pair, size) for pair in pairs)
        found.append((start, goal))
    return found


def _cell(number: int, pair: tuple[str, str], size: int) -> Cell:
    if any(len(part) > 3 or not 0 <= int(part) < size for part in pair):
        raise ValueError(
            f"line {number}: cell {shown(', '.join(pair))} lies outside of the {size}x{size} grid; "
            f"rows and columns run from 0 to {size - 1}"
        )
    return int(pair[0]), int(pair[1])


def _check_against_letters(grid: list[list[str]], cells: list[tuple[Cell, Cell]]) -> None:
    """ValueError for the first cell whose letter and the agent lines contradict each other."""
    placed: dict[Cell, str] = {}
    for index, (start, goal) in enumerate(cells):
        placed[start] = placed.get(start, "") + START_LETTERS[index]
        placed[goal] = placed.get(goal, "") + GOAL_LETTERS[index]
    if not any(letter in START_LETTERS + GOAL_LETTERS for row in grid for letter in row):
        placed = {}
    for r, row in enumerate(grid):
        for c, letter in enumerate(row):
            wanted = placed.get((r, c), FROZEN + HOLE)
            if letter not in wanted:
                raise ValueError(
                    f"cell {cell_text((r, c))} of the grid holds {letter!r}, "
                    f"the agent lines ask for {' or '.join(wanted)} there "
                    f"(starts {' '.join(START_LETTERS)}, goals {' '.join(GOAL_LETTERS)}); "
                    "correct the grid or the lines"
                )
