"""Problems as lines of JSON, for the commands that read them."""

import json
from pathlib import Path


def problem_line(name: str, size: int, holes: list, *agents: tuple) -> str:
    pairs = [{"start": list(start), "goal": list(goal)} for start, goal in agents]
    return json.dumps({"id": name, "size": size, "holes": holes, "agents": pairs})


def write_lines(path: Path, *values: object) -> None:
    """Lines as they are given, or as JSON of what is no text."""
    lines = (value if isinstance(value, str) else json.dumps(value) for value in values)
    path.write_text("".join(f"{line}\n" for line in lines))


PLUS = [[0, 0], [0, 2], [2, 0], [2, 2]]
CORRIDOR = [[r, c] for r in (1, 2) for c in range(3)]
APART = problem_line("apart", 3, [], ((0, 0), (0, 2)), ((2, 2), (2, 0)))
NO_WAY_PAST = problem_line("no way past", 3, CORRIDOR, ((0, 0), (0, 2)), ((0, 2), (0, 0)))
PROBLEMS = [
    APART,
    problem_line("there already", 3, [], ((0, 0), (0, 0)), ((2, 2), (1, 2))),
    problem_line("crossing", 3, PLUS, ((1, 0), (1, 2)), ((0, 1), (2, 1))),
    NO_WAY_PAST,
    problem_line("cut off", 4, [[0, 1], [1, 0], [1, 1]], ((0, 0), (3, 3))),
    problem_line("", 3, [], ((1, 1), (0, 1))),
]
GOOD = problem_line("x", 3, [], ((0, 0), (0, 1)))
