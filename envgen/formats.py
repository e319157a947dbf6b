"""Problems and solutions as lines of JSON, and problems of the MovingAI benchmark format."""

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from envgen.errors import DataError, describe_validation_error
from envgen.problem import MAX_AGENTS, MAX_SIZE, MIN_SIZE, Agent, Cell, Problem, Solution, moves_of

_FREE, _BLOCKED = set(".GS"), set("@OTW")


def read_problems(path: Path, agents: int | None = None) -> list[Problem]:
    """Problems of a `.jsonl` file, or the problem of a MovingAI `.scen` file whose `.map` lies beside it.

    `agents` limits a scenario to its first rows. DataError names file and line.
    """
    if path.suffix == ".scen":
        return [_read_scenario(path, agents)]
    problems = []
    for number, value in read_json_lines(path):
        try:
            problems.append(Problem.model_validate_json(json.dumps(value)))
        except ValidationError as error:
            raise DataError(describe_validation_error(error, f"{path}: line {number}")) from None
    return problems


def read_json_lines(path: Path) -> list[tuple[int, Any]]:
    """(line number, value) of every line that is not blank; DataError names the first line that is no JSON."""
    found = []
    # Not splitlines(): it also splits at U+2028 and its kind, which may stand inside a JSON string.
    for number, line in enumerate(_read_text(path).split("\n"), start=1):
        if line.strip():
            try:
                found.append((number, json.loads(line)))
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path}: line {number}: not JSON ({error}); one problem or answer a line is expected") from None
    return found


def solution_line(problem: Problem, solution: Solution | None) -> dict[str, Any]:
    """The line of JSON that `envwright solve` writes for a problem."""
    if solution is None:
        return {"id": problem.id, "solvable": False}
    return {
        "id": problem.id,
        "solvable": True,
        "sum_of_costs": solution.sum_of_costs,
        "makespan": solution.makespan,
        "wait_required": solution.wait_required,
        "plan": [list(moves_of(path)) for path in solution.plan],
    }


def _read_scenario(path: Path, agents: int | None) -> Problem:
    lines = _read_text(path).splitlines()
    if not lines or not lines[0].startswith("version"):
        raise DataError(f"{path}: line 1: expected 'version 1', as in MovingAI scenario files")
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        fields = line.split()
        if not fields:
            continue
        try:
            name, (column, row, goal_column, goal_row) = fields[1], (int(f) for f in fields[4:8])
        except (IndexError, ValueError):
            raise DataError(f"{path}: line {number}: expected 'bucket map width height start-x start-y goal-x goal-y length'") from None
        rows.append((name, (row, column), (goal_row, goal_column)))
    if not rows:
        raise DataError(f"{path}: holds no agent")
    wanted = agents or len(rows)
    if wanted > min(len(rows), MAX_AGENTS):
        raise DataError(f"{path}: {wanted} agents asked for, the file has {len(rows)} and at most {MAX_AGENTS} are solved; choose fewer with --agents")
    size, holes = _read_map(path.parent / Path(rows[0][0]).name)
    try:
        return Problem(id=path.stem, size=size, holes=tuple(holes), agents=tuple(Agent(start=start, goal=goal) for _, start, goal in rows[:wanted]))
    except ValidationError as error:
        raise DataError(describe_validation_error(error, str(path))) from None


def _read_map(path: Path) -> tuple[int, list[Cell]]:
    lines = _read_text(path).splitlines()
    try:
        begin = lines.index("map")
    except ValueError:
        raise DataError(f"{path}: has no line 'map'; expected a MovingAI map file") from None
    rows = [line for line in lines[begin + 1 :] if line]
    if not MIN_SIZE <= len(rows) <= MAX_SIZE or any(len(row) != len(rows) for row in rows):
        raise DataError(
            f"{path}: the map must be square with {MIN_SIZE} to {MAX_SIZE} cells a side, got {len(rows)} rows of {sorted({len(row) for row in rows})}"
        )
    holes = []
    for r, row in enumerate(rows):
        for c, letter in enumerate(row):
            if letter not in _FREE | _BLOCKED:
                raise DataError(f"{path}: line {begin + 2 + r}: unknown terrain {letter!r}; expected one of {''.join(sorted(_FREE | _BLOCKED))}")
            if letter in _BLOCKED:
                holes.append((r, c))
    return len(rows), holes


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (UnicodeDecodeError, IsADirectoryError, PermissionError) as error:
        raise DataError(f"{path}: cannot be read as text: {error}") from None
