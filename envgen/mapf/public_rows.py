"""Rows of the public benchmark, which say no plan: they are solved first.

They have the columns `sample_id, num_agents, text`; in JSON lines `subset` may say to which wait subset a row
belongs.
"""

from collections.abc import Callable, Iterable
from typing import Any

from pydantic import ValidationError

from envgen.errors import DataError, describe_validation_error
from envgen.mapf.benchmark import EVERYTHING, Item
from envgen.mapf.benchmark_text import BenchmarkRow
from envgen.mapf.problem import Instance, Problem, identity
from envgen.mapf.solver.solve import solve_many

PUBLIC = "LARK-Lab/MAPF-FrozenLake-Benchmark"
"""The authors' data set at the Hugging Face hub."""
CONFIG_PREFIX = "benchmark_"
"""The data set's configs are this and the name of a subset."""
SOLVED_AT_ONCE = 256


def solve_rows(
    rows: Iterable[tuple[str, Any]], source: str, progress: Callable[[int], None] | None
) -> list[Item]:
    """Rows of the public benchmark as instances with canonical identities and our solver's costs.

    DataError for a row that is wrong or has no plan.
    """
    read = [(where, *_read(where, value)) for where, value in rows]
    if not read:
        raise DataError(f"{source}: holds no row; expected rows sample_id, num_agents, text")
    found: list[Item] = []
    for first in range(0, len(read), SOLVED_AT_ONCE):
        batch = read[first : first + SOLVED_AT_ONCE]
        solutions = solve_many([problem for _, _, problem in batch])
        for (where, row, problem), solution in zip(batch, solutions, strict=True):
            if solution is None:
                raise DataError(
                    f"{where}: {row.sample_id!r} has no plan, so no answer can be judged by its cost; "
                    "leave it out"
                )
            subset = row.subset.removeprefix(CONFIG_PREFIX) or EVERYTHING
            found.append(Item(Instance(problem=problem, solution=solution), row.sample_id, subset))
        if progress:
            progress(len(found))
    return found


def _read(where: str, value: Any) -> tuple[BenchmarkRow, Problem]:
    """A row and its problem, under its canonical identity."""
    try:
        row = BenchmarkRow.model_validate(value)
        problem = row.problem()
    except ValidationError as error:
        raise DataError(describe_validation_error(error, where)) from None
    except ValueError as error:
        raise DataError(f"{where}: {error}") from None
    return row, problem.model_copy(update={"id": identity(problem)})
