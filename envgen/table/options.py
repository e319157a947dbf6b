"""Options of the environment `dataset`, and the instances that they make of a table."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from envgen.environment import Instance
from envgen.errors import ConfigError, DataError, UnreadableError, excerpt
from envgen.files import canonical_json
from envgen.frozen import Frozen
from envgen.module.worker import GeneratorError, Limits, Worker
from envgen.table import files
from envgen.table.files import Row, prompt_of, read_rows, text_of
from envgen.table.scorers import READERS

MAX_STRATA = 50


class StrataSpec(Frozen):
    """How rows are grouped."""

    column: str = ""
    """Column with the stratum; if left out, the name of the file is the stratum."""
    bins: tuple[float, ...] = ()
    """Edges for a column of numbers: `[0, 0.3, 1]` makes two strata, 0 to below 0.3 and 0.3 to 1."""
    order: tuple[str, ...] = ()
    """Values of the column from the easiest to the hardest; by number or alphabet if left out."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.bins and (len(self.bins) < 2 or sorted(set(self.bins)) != [*self.bins]):
            raise ValueError(f"bins: {list(self.bins)} do not rise; expected edges as [0, 0.5, 1]")
        if self.bins and (self.order or not self.column):
            raise ValueError("bins: order is set, or column is not; leave out order, and name a column")
        return self

    @property
    def labels(self) -> dict[tuple[float, float], str]:
        """Bin -> label of its stratum."""
        return {(low, high): f"{low:g} to {high:g}" for low, high in pairwise(self.bins)}

    def label(self, row: Row) -> str:
        """Return the label of a row's stratum; ValueError if there is none."""
        text = text_of(row.get(self.column)) if self.column else row.file
        with suppress(ValueError):
            number = float(text)
            text = text if self.bins else text_of(number)
            for (low, high), label in self.labels.items():
                if low <= number < high or number == high == self.bins[-1]:
                    return label
        if not text or self.bins:
            expected = f"number from {self.bins[0]:g} to {self.bins[-1]:g}" if self.bins else "text or number"
            raise ValueError(f"{self.column} is {excerpt(text)}, expected a {expected}")
        return text

    def sorted(self, labels: Collection[str]) -> list[str]:
        """Return the labels of strata in order; DataError if rows have others than the options name."""
        named = list(self.order or self.labels.values())
        if odd := sorted(set(labels).symmetric_difference(named)) if named else []:
            problem = "has no rows" if odd[0] in named else "is not named"
            remedy = "let order and bins name what the rows have"
            raise DataError(f"strata: {self.column} {odd[0]!r} {problem}; {remedy}")
        return named or sorted(labels, key=lambda label: (len(label) * label.isdecimal(), label))


class Described(Frozen):
    """What a run needs to know of a table, to be shown without it."""

    sha256: str
    """Digest of the instances."""
    rows: tuple[tuple[str, int], ...]
    """Label of each stratum, in order, and its rows with distinct prompts."""
    duplicates: int
    """Rows left out, as their prompt stands in an earlier row."""
    scorer: str | None
    """Digest of the scorer's code."""


class RowOptions(Frozen):
    """Options of every environment whose instances are rows."""

    strata: StrataSpec = StrataSpec()
    task: str = ""
    """Completes "a language model that ...", for engineers that are models."""
    limits: Limits = Limits()
    described: Described | None = None
    """Filled in when the preset is read."""


class Options(RowOptions):
    """Options of `dataset`."""

    source: str
    """File (.parquet, .jsonl, .csv), folder of such files, or name for `datasets.load_dataset`."""
    load: dict[Literal["name", "split", "revision"], str] = {"split": "train"}
    """Arguments of `datasets.load_dataset`, as `{name: main, split: train}`."""
    prompt: str = "prompt"
    """Column of texts, or of messages with a single turn; `a.b` is the field `b` of the column `a`."""
    answer: str = "answer"
    """Column of reference answers."""
    metadata: tuple[str, ...] = ()
    """Columns that a scorer in a file needs."""
    scorer: str = Field(default="exact", pattern=r"^(exact|number|choice|math|json|.+\.py:[A-Za-z_]\w*)$")
    """How an answer is compared, or a function, as `./mine.py:score`."""

    @field_validator("source", "scorer")
    @classmethod
    def _absolute(cls, value: str, info: ValidationInfo) -> str:
        """Return a path from the folder of the preset; a name as it is."""
        return absolute(value, info, tuple(files.READERS), ".py:" in value)

    @model_validator(mode="after")
    def _describe(self) -> Self:
        if self.described:
            return self
        worker = open_worker(self, None)
        try:
            scorer = worker.call("describe") if worker else None
            described = read_table(self)[1].model_copy(update={"scorer": scorer})
            return self.model_copy(update={"described": described})
        except DataError as error:
            raise ValueError(str(error)) from None
        except (ConfigError, GeneratorError) as error:
            raise ValueError(f"scorer: {self.scorer}: {error}") from None
        finally:
            if worker:
                worker.close()


def absolute(value: str, info: ValidationInfo, endings: tuple[str, ...], is_path: bool = False) -> str:
    """Return a path, or a value that ends as a file does, from the folder of the preset; a name as it is."""
    path = (Path((info.context or {}).get("folder", ".")) / value).resolve()
    is_path = is_path or path.is_dir() or value.startswith(".") or value.lower().endswith(endings)
    return str(path) if is_path else value


def open_worker(options: Options, sha256: str | None) -> Worker | None:
    """Return the process of a scorer that could hang; None if it is one of `READERS`."""
    if options.scorer in READERS:
        return None
    path, _, function = options.scorer.rpartition(":")
    arguments = {"path": path, "function": function, "sha256": sha256} if path else {}
    return Worker(f"envgen.table.scorers:{'FileScorer' if path else 'MathScorer'}", arguments, options.limits)


def read_table(options: Options) -> tuple[dict[str, list[Instance]], Described]:
    """Return the instances of a table by the labels of their strata, and its description; as `grouped`."""
    columns = [options.prompt, options.answer, *options.metadata, *filter(None, [options.strata.column])]
    rows = read_rows(options.source, columns, options.load)
    return grouped(options.source, rows, options, partial(_instance, options))


def grouped(
    source: str, rows: Iterable[Row], options: RowOptions, make: Callable[[Row, str], Instance]
) -> tuple[dict[str, list[Instance]], Described]:
    """Return instances by the labels of their strata, which `make` makes of rows, and their description.

    DataError names the first rows that cannot be used (`make` raises ValueError).
    """
    parts, seen, problems, duplicates = dict[str, list[Instance]](), set[str](), list[str](), 0
    for row in rows:
        try:
            label = options.strata.label(row)
            instance = make(row, label)
        except ValueError as error:
            problems.append(f"{row.line}: {error}")
            continue
        duplicates += instance.id in seen
        if instance.id not in seen:
            seen.add(instance.id)
            parts.setdefault(label, []).append(instance)
        if len(parts) > MAX_STRATA:
            problem = f"{options.strata.column} names more than {MAX_STRATA} strata"
            raise DataError(f"{source}: {problem}; set strata.bins, or name another column")
    if problems:
        places = "; ".join([*problems[:5], *["..."] * (len(problems) > 5)])
        raise DataError(f"{source}: {len(problems)} rows cannot be used: {places}; mend or remove them")
    parts, digest = {label: parts[label] for label in options.strata.sorted(parts)}, hashlib.sha256()
    for instance in chain.from_iterable(parts.values()):
        digest.update(canonical_json(instance).encode())
    counts = tuple((label, len(part)) for label, part in parts.items())
    return parts, Described(sha256=digest.hexdigest(), rows=counts, duplicates=duplicates, scorer=None)


def _instance(options: Options, row: Row, label: str) -> Instance:
    """Return the instance of a row; ValueError says what is wrong with it."""
    texts = []
    for column, read in ((options.prompt, prompt_of), (options.answer, text_of)):
        try:
            texts.append(read(row.get(column)))
        except ValueError as error:
            raise ValueError(f"{column} {error}") from None
        if not texts[-1]:
            raise ValueError(f"{column} is empty")
    question, answer = texts
    try:
        READERS.get(options.scorer, str)(answer)
    except UnreadableError as error:
        where = f"{options.answer} is {excerpt(answer)}"
        raise ValueError(f"{where}: {error} for scorer {options.scorer}") from None
    metadata = json.loads(canonical_json({column: row.get(column) for column in options.metadata}))
    return text_instance(label, question, answer, {"metadata": metadata} if metadata else {})


def text_instance(label: str, question: str, answer: str, payload: dict[str, Any]) -> Instance:
    """Return an instance; questions that are equal but for white space and case have one id."""
    identity = " ".join(unicodedata.normalize("NFC", question).casefold().split())
    return Instance(
        id=hashlib.sha256(f"dataset\n{identity}".encode()).hexdigest()[:32],
        stratum=stratum_name(label),
        question=question,
        answer=answer,
        payload=payload,
    )


def stratum_name(label: str) -> str:
    """Return the name of a stratum in configs: letters, digits and underscores of its label."""
    return re.sub(r"[^A-Za-z0-9]+", "_", label).strip("_") or "_"
