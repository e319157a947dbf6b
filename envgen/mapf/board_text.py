"""Read a board from a text: a grid of letters, then lines that give the start and goal of each agent.

Rows of the public MAPF-FrozenLake benchmark, our prompts and `envgen.mapf.problem.to_text` hold such texts.
The wording of agent lines is free: a line counts that begins with `Agent` and a number and holds two cells
`(row, column)`, the start and the goal. Work is bounded: texts are short, and every line is read once.
"""

import re

from envgen.errors import excerpt
from envgen.mapf.problem import (
    FROZEN,
    GOAL_LETTERS,
    HOLE,
    MAX_AGENTS,
    MAX_SIZE,
    MIN_SIZE,
    START_LETTERS,
    Agent,
    Cell,
    Problem,
    cell_text,
)

MAX_CHARACTERS = 64_000
"""Maximum length of a text."""
_AGENT_LETTERS = START_LETTERS + GOAL_LETTERS
_LETTERS = frozenset(_AGENT_LETTERS + FROZEN + HOLE)
_AGENT = re.compile(r"[^\w(\[]*agent[ \t_#]*([0-9]{1,3})\b", re.IGNORECASE)
_CELL = re.compile(r"[(\[]\s*(-?[0-9]+)\s*,\s*(-?[0-9]+)\s*[)\]]")

Grid = list[list[str]]
Ends = tuple[Cell, Cell]
"""Start and goal of an agent."""


def from_text(text: str, id: str = "") -> Problem:
    """Return the only board in `text`: a grid of n rows of n letters, 3 to 10, set apart by blanks.

    Agent lines and letters must agree; the lines decide where a start and a goal share a cell, and on a grid
    without letters of agents. ValueError names line or cell.
    """
    if len(text) > MAX_CHARACTERS:
        raise ValueError(
            f"the text has {len(text)} characters, at most {MAX_CHARACTERS} are read; shorten it"
        )
    lines = text.split("\n")
    grid, end = _grid(lines)
    ends = _agent_lines(lines, end, len(grid))
    _check_letters(grid, ends)
    holes = tuple((r, c) for r, row in enumerate(grid) for c, letter in enumerate(row) if letter == HOLE)
    agents = tuple(Agent(start=start, goal=goal) for start, goal in ends)
    return Problem(id=id, size=len(grid), holes=holes, agents=agents)


def _grid(lines: list[str]) -> tuple[Grid, int]:
    """Return the letters of the only square grid, and the number of lines up to its end."""
    runs: list[tuple[int, Grid]] = []
    """Number of the last line, and rows of equal length."""
    for number, line in enumerate(lines, start=1):
        row = line.split()
        if not (MIN_SIZE <= len(row) <= MAX_SIZE and _LETTERS.issuperset(row)):
            continue
        joins = runs and runs[-1][0] == number - 1 and len(runs[-1][1][0]) == len(row)
        rows = runs.pop()[1] if joins else []
        runs.append((number, [*rows, row]))
    grids = [(rows, end) for end, rows in runs if len(rows) == len(rows[0])]
    if len(grids) == 1:
        return grids[0]
    if grids:
        first, second = (end - len(rows) + 1 for rows, end in grids[:2])
        raise ValueError(f"grids begin at lines {first} and {second}; leave only one of them")
    expected = (
        f"expected one grid of n rows with n letters each, n from {MIN_SIZE} to {MAX_SIZE}, "
        f"set apart by blanks, of {''.join(sorted(_LETTERS))}"
    )
    if not runs:
        raise ValueError(f"no grid found; {expected}")
    end, rows = max(runs, key=lambda run: len(run[1]))
    first = end - len(rows) + 1
    raise ValueError(f"line {first}: {len(rows)} rows of {len(rows[0])} letters; {expected}")


def _agent_lines(lines: list[str], begin: int, size: int) -> list[Ends]:
    """Return the ends of each agent in the first block of agent lines; blank lines do not end a block."""
    ends: list[Ends] = []
    first = 0
    for number, line in enumerate(lines[begin:], start=begin + 1):
        match = _AGENT.match(line)
        cells = _CELL.findall(line, match.end()) if match else []
        if not match or not cells:
            if ends and line.strip():
                break
            continue
        if len(cells) != 2:
            raise ValueError(
                f"line {number}: {len(cells)} cells in {excerpt(line.strip())}; expected a start and a goal, "
                "as in 'Agent 0: (0, 1) to (2, 3)'"
            )
        named = int(match[1])
        first = first if ends else named
        if first not in (0, 1) or named != first + len(ends):
            raise ValueError(
                f"line {number}: agent {named} where agent {len(ends)} is expected; "
                "list the agents in order, counted from 0 or from 1"
            )
        if len(ends) == MAX_AGENTS:
            raise ValueError(f"line {number}: more than {MAX_AGENTS} agents; leave some out")
        start, goal = (_cell(number, cell, size) for cell in cells)
        ends.append((start, goal))
    if not ends:
        raise ValueError(
            "no line below the grid gives an agent; expected 'Agent 0: (0, 1) to (2, 3)' and so on"
        )
    return ends


def _cell(number: int, numerals: tuple[str, str], size: int) -> Cell:
    if any(len(numeral) > 3 or not 0 <= int(numeral) < size for numeral in numerals):
        raise ValueError(
            f"line {number}: cell {excerpt(', '.join(numerals))} lies outside of the {size}x{size} grid; "
            f"rows and columns run from 0 to {size - 1}"
        )
    return int(numerals[0]), int(numerals[1])


def _check_letters(grid: Grid, ends: list[Ends]) -> None:
    """Raise ValueError for the first cell whose letter contradicts the agent lines."""
    placed: dict[Cell, str] = {}
    if any(letter in _AGENT_LETTERS for row in grid for letter in row):
        for index, (start, goal) in enumerate(ends):
            placed[start] = placed.get(start, "") + START_LETTERS[index]
            placed[goal] = placed.get(goal, "") + GOAL_LETTERS[index]
    for r, row in enumerate(grid):
        for c, letter in enumerate(row):
            letters = placed.get((r, c), FROZEN + HOLE)
            if letter not in letters:
                raise ValueError(
                    f"cell {cell_text((r, c))} of the grid holds {letter!r}, the agent lines ask for "
                    f"{' or '.join(letters)} there; correct the grid or the lines"
                )
