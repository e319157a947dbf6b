"""Where a benchmark's instances come from: its suite, a data set, or rows of its public data set."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from envgen.errors import DataError
from envgen.suites import Benchmark, Item

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def read_source(benchmark: Benchmark, source: str) -> list[Item]:
    """The instances of the suite, or of `source`: a .parquet data set, or a hub id or folder of the public
    data set; DataError names file, row and remedy."""
    if not source:
        return benchmark.suite()
    path = Path(source)
    if path.suffix == ".parquet":
        items = benchmark.read(path)
    elif path.is_dir() or (_HUB_ID.fullmatch(source) and not path.exists()):
        items = benchmark.solved(_hub_rows(benchmark, source))
    else:
        raise DataError(f"{source}: expected a .parquet data set, or a hub id as {benchmark.public}")
    if not items:
        raise DataError(f"{source}: holds no instance; give another data set")
    return items


def limited(items: Sequence[Item], each: int) -> list[Item]:
    """At most `each` items of those in the same groups: with the least identities, which prefers none."""
    cells = [tuple(item.groups.values()) for item in items]
    frame = pd.DataFrame({"id": [item.instance.id for item in items], "cell": cells})
    least = frame.sort_values("id", kind="stable").groupby("cell").head(each)
    return [items[index] for index in sorted(least.index)]


def _hub_rows(benchmark: Benchmark, source: str) -> Iterator[tuple[str, Any]]:
    """The rows of every split of the configs of a data set at the hub, or of a copy in a folder."""
    from datasets import load_dataset  # takes seconds to import

    for config in benchmark.configs:
        try:
            splits = load_dataset(source, config)
        except (OSError, ValueError) as error:
            remedy = "check the id and the network, or give a folder with a copy of the data set"
            raise DataError(f"{source}: config {config} cannot be fetched ({error}); {remedy}") from None
        for split, rows in splits.items():
            for number, row in enumerate(rows):
                yield f"{source}: {config}, {split}, row {number}", {**dict(row), "subset": config}
