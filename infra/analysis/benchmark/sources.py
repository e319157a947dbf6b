"""Where a benchmark's instances come from: the shipped suite, a data set, or rows of the public benchmark.

Rows are solved first. They have the columns `sample_id, num_agents, text`; in JSON lines `subset` may say to
which wait subset a row belongs.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from envgen.errors import DataError, describe_validation_error
from envgen.mapf.benchmark import EVERYTHING, SUBSETS, Item, load_suite, read_items
from envgen.mapf.benchmark_text import BenchmarkRow
from envgen.mapf.formats import read_json_lines
from envgen.mapf.problem import Instance, Problem, identity
from envgen.mapf.solver.solve import solve_many

PUBLIC = "LARK-Lab/MAPF-FrozenLake-Benchmark"
"""The authors' data set at the Hugging Face hub."""
CONFIG_PREFIX = "benchmark_"
"""The data set's configs are this and the name of a subset."""
SOLVED_AT_ONCE = 256
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")

Row = tuple[str, Any]
"""Where a row stands, for messages, and what it holds."""


def read_source(source: str, progress: Callable[[int], None] | None = None) -> list[Item]:
    """The instances of `source`; nothing means the shipped suite.

    Else it is a .parquet data set, .jsonl rows, or a hub id or folder of the public data set.
    `progress` is told how many rows are solved. DataError names file, row and remedy.
    """
    if not source:
        return load_suite()
    path = Path(source)
    if path.suffix == ".parquet":
        return read_items(path)
    if path.suffix == ".jsonl":
        return solve_rows(
            ((f"{path}: line {number}", value) for number, value in read_json_lines(path)), source, progress
        )
    if path.is_dir() or (_HUB_ID.fullmatch(source) and not path.exists()):
        return solve_rows(_hub_rows(source), source, progress)
    raise DataError(
        f"{source}: expected a .parquet data set, a .jsonl file of rows sample_id, num_agents, text, or "
        f"a hub id as {PUBLIC}"
    )


def solve_rows(rows: Iterable[Row], source: str, progress: Callable[[int], None] | None = None) -> list[Item]:
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


def _hub_rows(source: str) -> Iterator[Row]:
    """The rows of every split of the three configs of a data set at the hub, or of a copy in a folder."""
    from datasets import load_dataset  # takes seconds to import

    for subset in SUBSETS:
        config = CONFIG_PREFIX + subset
        try:
            splits = load_dataset(source, config)
        except (OSError, ValueError) as error:
            raise DataError(
                f"{source}: config {config} cannot be fetched ({error}); check the id and the network, or "
                "save its rows sample_id, num_agents, text "
                "as JSON lines where there is one and give that file"
            ) from None
        for split, rows in splits.items():
            for number, row in enumerate(rows):
                yield f"{source}: {config}, {split}, row {number}", {**dict(row), "subset": subset}
