"""Files of problems: JSON lines of problems or benchmark rows, data sets, MovingAI scenarios, board texts."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from envgen.dataset import NAME, column_names, family_of, read_dataset, read_table
from envgen.errors import DataError, describe_validation_error
from envgen.families import DEFAULT
from envgen.files import read_json_lines, read_text
from envgen.mapf.benchmark_text import BenchmarkRow, from_benchmark_text
from envgen.mapf.movingai import read_scenario
from envgen.mapf.problem import Instance, Problem, Solution, moves_of


def read_boards(path: Path) -> list[Instance]:
    """Boards of a data set, each with the id that it had before conversion, if it had one.

    DataError as `read_dataset`, and for a data set of another family.
    """
    if (family := family_of(path).name) != DEFAULT:
        raise DataError(f"{path}: holds instances of the family {family!r}; give a data set of {DEFAULT!r}")
    instances: list[Instance] = read_dataset(path)
    if NAME.name not in column_names(path):
        return instances
    names = read_table(path, pa.schema([NAME])).column(0).to_pylist()
    problems = [
        i.problem.model_copy(update={"id": name}) if name else i.problem
        for i, name in zip(instances, names, strict=True)
    ]
    return [i.model_copy(update={"problem": problem}) for i, problem in zip(instances, problems, strict=True)]


def read_problems(path: Path, agents: int | None = None) -> list[Problem]:
    """The problems of a file, by its suffix.

    `.parquet` is a data set, `.scen` a MovingAI scenario with its `.map` beside it, `.txt` one board as text
    (see `envgen.mapf.benchmark_text`); the last two take the file's stem as id. Anything else is JSON lines:
    problems, or rows `sample_id, num_agents, text` of the public benchmark. `agents` limits a scenario to its
    first rows, and is refused for other files. DataError names file and line.
    """
    if agents is not None and path.suffix != ".scen":
        raise DataError(
            f"{path}: {agents} agents asked for, which only a .scen file can be cut down to; "
            "leave out --agents"
        )
    if path.suffix == ".parquet":
        return [instance.problem for instance in read_boards(path)]
    if path.suffix == ".scen":
        return [read_scenario(path, agents)]
    if path.suffix == ".txt":
        text = read_text(path)
        try:
            return [from_benchmark_text(text, path.stem)]
        except ValueError as error:
            raise DataError(_describe(error, str(path))) from None
    problems = []
    for number, value in read_json_lines(path):
        try:
            problems.append(_problem_of(value))
        except ValueError as error:
            raise DataError(_describe(error, f"{path}: line {number}")) from None
    return problems


def problem_line(problem: Problem) -> dict[str, Any]:
    """The line of JSON that `read_problems` reads back as the same problem."""
    return problem.model_dump(mode="json")


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


def _problem_of(value: Any) -> Problem:
    if isinstance(value, dict) and "sample_id" in value:
        return BenchmarkRow.model_validate(value).problem()
    try:
        return Problem.model_validate_json(json.dumps(value))
    except RecursionError:
        raise ValueError("lists or objects are nested too deep; expected one problem a line") from None


def _describe(error: ValueError, source: str) -> str:
    return (
        describe_validation_error(error, source)
        if isinstance(error, ValidationError)
        else f"{source}: {error}"
    )
