"""Read a board from a text: a grid of letters, and lines that give the start and goal of each agent.

The public MAPF-FrozenLake benchmark, our prompts and `envgen.mapf.problem.to_text` write boards like this.
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

Line = tuple[int, str]
"""Line number, from 1, and the line."""
Grid = list[list[str]]
Ends = tuple[Cell, Cell]
"""Start and goal of an agent."""


def from_text(text: str, id: str = "") -> Problem:
    """Return the only board in `text`: a grid of n rows of n letters, 3 to 10, set apart by blanks.

    Agent lines and letters must agree. The lines decide where a start and a goal share a cell, and on a grid
    without letters of agents. Without agent lines the letters place every start and goal. ValueError names
    line or cell.
    """
    if len(text) > MAX_CHARACTERS:
        raise ValueError(
            f"the text has {len(text)} characters, at most {MAX_CHARACTERS} are read; shorten it"
        )
    lines = list(enumerate(text.split("\n"), start=1))
    grid, end = _grid(lines)
    ends = _agent_lines(lines[end:], len(grid)) or _agent_lines(lines[: end - len(grid)], len(grid))
    if ends:
        _check_letters(grid, ends)
    else:
        ends = _lettered_agents(grid)
    holes = tuple((r, c) for r, row in enumerate(grid) for c, letter in enumerate(row) if letter == HOLE)
    agents = tuple(Agent(start=start, goal=goal) for start, goal in ends)
    return Problem(id=id, size=len(grid), holes=holes, agents=agents)


def _grid(lines: list[Line]) -> tuple[Grid, int]:
    """Return the letters of the only square grid, and the number of lines up to its end."""
    runs: list[list[tuple[int, list[str]]]] = []
    for number, line in lines:
        row = line.split()
        if not (MIN_SIZE <= len(row) <= MAX_SIZE and _LETTERS.issuperset(row)):
            continue
        if runs and runs[-1][-1][0] == number - 1 and len(runs[-1][-1][1]) == len(row):
            runs[-1].append((number, row))
        else:
            runs.append([(number, row)])
    grids = [run for run in runs if len(run) == len(run[0][1])]
    if len(grids) == 1:
        return [row for _, row in grids[0]], grids[0][-1][0]
    if grids:
        raise ValueError(
            f"grids begin at lines {grids[0][0][0]} and {grids[1][0][0]}; leave only one of them"
        )
    expected = (
        f"expected one grid of n rows with n letters each, n from {MIN_SIZE} to {MAX_SIZE}, "
        f"set apart by blanks, of {''.join(sorted(_LETTERS))}"
    )
    if not runs:
        raise ValueError(f"no grid found; {expected}")
    longest = max(runs, key=len)
    raise ValueError(f"line {longest[0][0]}: {len(longest)} rows of {len(longest[0][1])} letters; {expected}")


def _agent_lines(lines: list[Line], size: int) -> list[Ends]:
    """Return the ends of each agent in the first block of agent lines; blank lines do not end a block."""
    ends: list[Ends] = []
    first = 0
    for number, line in lines:
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
    return ends


def _cell(number: int, numerals: tuple[str, str], size: int) -> Cell:
    if any(len(numeral) > 3 or not 0 <= int(numeral) < size for numeral in numerals):
        raise ValueError(
            f"line {number}: cell {excerpt(', '.join(numerals))} lies outside of the {size}x{size} grid; "
            f"rows and columns run from 0 to {size - 1}"
        )
    return int(numerals[0]), int(numerals[1])


def _lettered_agents(grid: Grid) -> list[Ends]:
    """Return the ends of each agent by the letters of the grid."""
    cells: dict[str, Cell] = {}
    for r, row in enumerate(grid):
        for c, letter in enumerate(row):
            if letter in cells:
                raise ValueError(f"cell {cell_text((r, c))} holds a letter twice, {letter!r}; place it once")
            if letter in _AGENT_LETTERS:
                cells[letter] = (r, c)
    agents = max((_AGENT_LETTERS.index(letter) % MAX_AGENTS + 1 for letter in cells), default=0)
    for letter in START_LETTERS[:agents] + GOAL_LETTERS[:agents]:
        if letter not in cells:
            raise ValueError(f"the grid lacks the letter {letter!r}; pairs are SG, sg, Aa, Bb, Cc")
    return [(cells[START_LETTERS[index]], cells[GOAL_LETTERS[index]]) for index in range(agents)]


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
                    f"{' or '.join(letters)} there (starts {' '.join(START_LETTERS)}, goals "
                    f"{' '.join(GOAL_LETTERS)}); correct the grid or the lines"
                )
