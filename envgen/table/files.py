"""Rows of a user's table: a Parquet, JSON lines or CSV file, a folder of them, or a name on the hub.

Rows are the same whatever program wrote a file: columns have names, and any order; a byte order mark and
Windows' ends of lines are no part of a text; equal numbers of different types become the same text.
"""

import datetime
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from envgen.dataset import DAMAGED, check_columns
from envgen.errors import DataError, excerpt
from envgen.files import read_json_lines

MAX_ROWS = 1_000_000
REMEDY = "; name another column in environment.options"
Read = tuple[list[str], Iterable[tuple[int, Any]]]
"""Names of all columns, and numbered rows with the columns that are asked for."""


class Row(NamedTuple):
    """One row."""

    file: str
    """Name of the file without its ending."""
    line: str
    """Place in messages: `train.jsonl, line 7`."""
    values: dict[str, Any]

    def get(self, column: str) -> Any:
        """Return a value; None if the row has none. `a.b` is the field `b` of the column `a`."""
        value: Any = self.values
        for name in (column,) if column in value else column.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return value


def read_rows(source: str, columns: Sequence[str], load: Mapping[Any, str]) -> Iterator[Row]:
    """Yield the rows of a table; DataError names file, line or column if it is damaged or lacks a column.
    `load` has arguments of `datasets.load_dataset`, for a source that is no path."""
    path, count = Path(source), 0
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    tables = [file for file in files if file.suffix.lower() in READERS]
    if path.is_dir() and not tables:
        raise DataError(f"{path}: holds no table; expected files that end in {', '.join(READERS)}")
    for file in tables or [path]:
        name, place = str(file) if tables else source, "line" if file.suffix == ".jsonl" else "row"
        try:
            read = READERS.get(file.suffix.lower())
            names, rows = read(file, columns) if read else _hub(source, columns, load)
            check_columns(name, names, columns, REMEDY)
            for number, values in rows:
                count += 1
                if count > MAX_ROWS:
                    raise DataError(f"{source}: has more than {MAX_ROWS:,} rows; give a smaller table")
                if not isinstance(values, dict):
                    raise DataError(f"{name}: {place} {number}: is {excerpt(values)}; expected a JSON object")
                yield Row(file.stem, f"{file.name}, {place} {number}", values)
        except FileNotFoundError:
            raise DataError(f"{name}: no such file; check environment.options.source") from None
        except DAMAGED as error:
            reason = (str(error) or type(error).__name__).splitlines()[0][:200]
            raise DataError(f"{name}: cannot be read ({reason}); write the file again") from None
    if not count:
        raise DataError(f"{source}: has no rows; give another table")


def _parquet(path: Path, columns: Sequence[str]) -> Read:
    file = pq.ParquetFile(path)
    batches = file.iter_batches(batch_size=1_000, columns=columns)
    return file.schema_arrow.names, enumerate(chain.from_iterable(b.to_pylist() for b in batches), start=1)


def _csv(path: Path, _: Sequence[str]) -> Read:
    """Rows of texts; the header is row 0, and an empty field an empty text."""
    parse = pc.ParseOptions(newlines_in_values=True)
    with pc.open_csv(path, parse_options=parse) as file:
        names = file.schema.names
    convert = pc.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), null_values=[])
    batches = pc.open_csv(path, parse_options=parse, convert_options=convert)
    return names, enumerate(chain.from_iterable(batch.to_pylist() for batch in batches), start=1)


def _json_lines(path: Path, _: Sequence[str]) -> Read:
    rows = read_json_lines(path)
    first = next(rows, (1, {}))
    return list(first[1]) if isinstance(first[1], dict) else [], chain([first] if first[1] else [], rows)


def _hub(name: str, columns: Sequence[str], load: Mapping[Any, str]) -> Read:
    from datasets import load_dataset

    try:
        table: Any = load_dataset(name, **dict[str, Any](load))
    except Exception as error:  # whatever the library and its network raise
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        remedy = f"give a path that ends in {', '.join(READERS)}, or name, subset and split of a data set"
        raise DataError(f"{name}: cannot be loaded from the hub ({reason}); {remedy}") from None
    tops = {*columns, *(column.partition(".")[0] for column in columns)}
    used = table.select_columns([name for name in table.column_names if name in tops])
    return table.column_names, enumerate(used, start=1)


READERS: dict[str, Callable[[Path, Sequence[str]], Read]] = {
    ".parquet": _parquet,
    ".jsonl": _json_lines,
    ".csv": _csv,
}
"""Ending of a file -> function that returns its columns, and its rows with their numbers."""


def text_of(value: Any) -> str:
    """Return a value as a text, the same for equal numbers: `5` of 5, 5.0 and Decimal("5.00"). Empty for None
    and NaN; ValueError for what is no text, number, truth value or date, or cannot be stored."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float | Decimal):
        value = None if not math.isfinite(value) else int(value) if value == int(value) else value
    if isinstance(value, Decimal):
        value = value.normalize()
    if not isinstance(value, str | int | float | Decimal | datetime.date | None):
        raise ValueError(f"is {excerpt(value)}, expected a text or a number")
    text = "" if value is None else str(value).replace("\r\n", "\n").strip()
    text.encode()  # UnicodeEncodeError: half of a surrogate pair
    return text


def prompt_of(value: Any) -> str:
    """Return a text, or messages of a user, perhaps after a system's, as a text; ValueError for others."""
    if not isinstance(value, list):
        return text_of(value)
    turns = [(turn.get("role"), turn.get("content")) for turn in value if isinstance(turn, dict)]
    roles = [role for role, _ in turns]
    if roles[-1:] == ["assistant"]:  # the answer, in data sets for supervised training
        roles.pop()
    if roles not in (["user"], ["system", "user"]):
        raise ValueError(f"has the roles {excerpt(roles)}, expected a single turn: user, or system and user")
    return "\n\n".join(filter(None, (text_of(content) for _, content in turns[: len(roles)])))
