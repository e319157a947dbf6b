"""Where a benchmark's instances come from: its suite, a data set, or rows of its public data set."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from envgen.errors import DataError
from envgen.files import read_json_lines
from envgen.suites import Benchmark, Item

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def read_source(
    benchmark: Benchmark, source: str, progress: Callable[[int], None] | None = None
) -> list[Item]:
    """The instances of `source`; nothing means the suite.

    Else it is a .parquet data set, .jsonl rows, or a hub id or folder of the public data set.
    `progress` gets the number of rows solved. DataError names file, row and remedy.
    """
    if not source:
        return benchmark.suite()
    path = Path(source)
    if path.suffix == ".parquet":
        return benchmark.read(path)
    if path.suffix == ".jsonl":
        rows = ((f"{path}: line {number}", value) for number, value in read_json_lines(path))
        return benchmark.solved(rows, source, progress)
    if path.is_dir() or (_HUB_ID.fullmatch(source) and not path.exists()):
        return benchmark.solved(_hub_rows(benchmark, source), source, progress)
    raise DataError(
        f"{source}: expected a .parquet data set, a .jsonl file of rows as the public data set has, or a hub "
        f"id as {benchmark.public}"
    )


def limited(items: Sequence[Item], each: int) -> list[Item]:
    """At most `each` items of those that are in the same groups.

    Those with the least identities are taken, which prefers none.
    """
    taken, indices = Counter[tuple[str, ...]](), []
    for index, item in sorted(enumerate(items), key=lambda pair: pair[1].instance.id):
        cell = tuple(item.groups.values())
        taken[cell] += 1
        if taken[cell] <= each:
            indices.append(index)
    return [items[index] for index in sorted(indices)]


def _hub_rows(benchmark: Benchmark, source: str) -> Iterator[tuple[str, Any]]:
    """The rows of every split of the configs of a data set at the hub, or of a copy in a folder."""
    from datasets import load_dataset  # takes seconds to import

    for config in benchmark.configs:
        try:
            splits = load_dataset(source, config)
        except (OSError, ValueError) as error:
            raise DataError(
                f"{source}: config {config} cannot be fetched ({error}); check the id and the network, or "
                "save its rows as JSON lines where there is one and give that file"
            ) from None
        for split, rows in splits.items():
            for number, row in enumerate(rows):
                yield f"{source}: {config}, {split}, row {number}", {**dict(row), "subset": config}
