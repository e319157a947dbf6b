"""Read a board from a text: a grid of letters, then a line with the start and goal of each agent.

Rows of the public MAPF-FrozenLake benchmark and `envgen.mapf.problem.to_text` hold such texts.
"""

import re

from envgen.errors import excerpt
from envgen.mapf.problem import FROZEN, GOAL_LETTERS, HOLE, START_LETTERS, Agent, Problem, cell_text

MAX_CHARACTERS = 64_000
"""Maximum length of a text."""
_LETTERS = frozenset(START_LETTERS + GOAL_LETTERS + FROZEN + HOLE)
_CELL = re.compile(r"[(\[]\s*([0-9]{1,3})\s*,\s*([0-9]{1,3})\s*[)\]]")


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
    problem = Problem(id=id, size=len(grid), holes=holes, agents=agents)
    _check_letters(grid, problem)
    return problem


def _check_letters(grid: list[list[str]], problem: Problem) -> None:
    """Raise ValueError for the first cell whose letter contradicts the agents."""
    placed: dict[tuple[int, int], str] = {}
    for index, agent in enumerate(problem.agents):
        placed[agent.start] = placed.get(agent.start, "") + START_LETTERS[index]
        placed[agent.goal] = placed.get(agent.goal, "") + GOAL_LETTERS[index]
    for r, row in enumerate(grid):
        for c, letter in enumerate(row):
            letters = placed.get((r, c), FROZEN + HOLE)
            if letter not in letters:
                raise ValueError(
                    f"cell {cell_text((r, c))} of the grid holds {letter!r}, the agent lines ask for "
                    f"{' or '.join(letters)} there; correct the grid or the lines"
                )
