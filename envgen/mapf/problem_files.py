"""Read problems from files, and write their solutions as JSON lines."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envgen.dataset import environment_of, read_dataset
from envgen.errors import DataError, excerpt, naming
from envgen.files import read_json_lines
from envgen.mapf.problem import Instance, Problem, Solution, moves_of
from envgen.mapf.solver.solve import solve_many
from envgen.registry import DEFAULT


def read_problems(path: Path) -> list[Problem]:
    """Return the problems of a data set (`.parquet`) or of JSON lines, at least one; DataError names line and
    field."""
    problems: list[Problem] = []
    if path.suffix == ".parquet":
        problems += [instance.problem for instance in _read_boards(path)]
    for number, value in read_json_lines(path) if path.suffix != ".parquet" else ():
        with naming(f"{path}: line {number}"):
            problems.append(Problem.model_validate_json(json.dumps(value)))
    if not problems:
        raise DataError(f"{path}: holds no problem")
    return problems


def read_instances(path: Path) -> list[Instance]:
    """Return the problems of a file with solutions: those stored in a data set, else the solver's. DataError
    for a problem without a plan, and as `read_problems`."""
    if path.suffix == ".parquet":
        return _read_boards(path)
    return _solved(read_problems(path), path)


def read_instance(path: Path, id: str | None) -> Instance:
    """Return one problem of a file, solved, the first without an `id`; DataError as `read_instances`."""
    problems = read_problems(path)
    matches = [problem for problem in problems if id in (None, problem.id)]
    if id is not None and len(matches) != 1:
        ids, count = ", ".join(excerpt(problem.id) for problem in problems[:3]), len(matches)
        raise DataError(
            f"{path}: {count} problems with the id {excerpt(id)}, expected 1; the first are {ids}"
        )
    return _solved(matches[:1], path)[0]


def solution_line(problem: Problem, solution: Solution | None) -> dict[str, Any]:
    """Return the JSON object that `envwright mapf solve` writes for a problem; None stands for no plan."""
    if solution is None:
        return {"id": problem.id, "solvable": False}
    costs = solution.model_dump(include={"sum_of_costs", "makespan", "wait_required"})
    return {"id": problem.id, "solvable": True, **costs, "plan": [moves_of(path) for path in solution.plan]}


def _read_boards(path: Path) -> list[Instance]:
    if (environment := environment_of(path).name) != DEFAULT:
        raise DataError(f"{path}: holds instances of {environment!r}; expected a data set of {DEFAULT!r}")
    return read_dataset(path)


def _solved(problems: Sequence[Problem], path: Path) -> list[Instance]:
    instances = []
    for problem, solution in zip(problems, solve_many(problems), strict=True):
        if solution is None:
            raise DataError(f"{path}: problem {problem.id!r} is not solvable; leave it out")
        instances.append(Instance(problem=problem, solution=solution))
    return instances
