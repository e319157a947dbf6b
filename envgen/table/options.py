"""Options of environments whose instances are rows, and the instances that they make of rows."""

import hashlib
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from itertools import chain, pairwise
from typing import Any, ClassVar, Self

from pydantic import model_validator

from envgen.environment import Instance
from envgen.errors import DataError, excerpt
from envgen.files import canonical_json
from envgen.frozen import Frozen
from envgen.module.environment import WorkerOptions
from envgen.module.worker import Worker
from envgen.table.files import Row, prompt_of, text_of

Parts = dict[str, list[Instance]]
"""Label of a stratum -> its instances."""
MAX_STRATA = 50
_FIELD = re.compile(r"\{([\w.]+)\}")


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
    def labels(self) -> list[str]:
        """Label of the stratum of each bin."""
        return [f"{low:g} to {high:g}" for low, high in pairwise(self.bins)]

    def label(self, row: Row) -> str:
        """Return the label of a row's stratum; ValueError if there is none."""
        text = text_of(row.get(self.column)) if self.column else row.file
        with suppress(ValueError):
            number = float(text)
            text = text if self.bins else text_of(number)
            if self.bins and self.bins[0] <= number <= self.bins[-1]:
                return self.labels[min(bisect_right(self.bins, number), len(self.labels)) - 1]
        if not text or self.bins:
            expected = f"number from {self.bins[0]:g} to {self.bins[-1]:g}" if self.bins else "text or number"
            raise ValueError(f"{self.column} is {excerpt(text)}, expected a {expected}")
        return text

    def sorted(self, labels: Collection[str]) -> list[str]:
        """Return the labels of strata in order; DataError if rows have others than the options name."""
        named = list(self.order or self.labels)
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


class RowOptions(WorkerOptions):
    """Options of every environment whose instances are rows."""

    source: str
    answer: str = ""
    """Column of reference answers, or a text with columns, as `<a>{answer}</a>`; none if left out."""
    strata: StrataSpec = StrataSpec()
    task: str = ""
    """Completes "a language model that ...", for engineers that are models."""
    described: Described | None = None
    prompt: ClassVar[str]
    """Column of prompts."""

    def read(self, worker: Worker) -> tuple[Parts, Described]:
        """Return the instances of all rows, and their description, as `grouped`."""
        raise NotImplementedError

    def payload(self, row: Row, answer: str) -> dict[str, Any]:
        """Return what a scorer needs beside question and answer; ValueError if it cannot read the answer."""
        raise NotImplementedError

    def describe(self, worker: Worker) -> Described:
        """Return the description of all rows."""
        return self.read(worker)[1]

    @property
    def columns(self) -> list[str]:
        """Columns of answers and strata, where they are named."""
        return [*filter(None, [*self._fields, self.strata.column])]

    @property
    def _fields(self) -> list[str]:
        return _FIELD.findall(self.answer) or [self.answer]

    def grouped(self, rows: Iterable[Row], code: str | None) -> tuple[Parts, Described]:
        """Return the instances of rows, and their description; `code` is the digest of the scorer. DataError
        names the first rows that cannot be used."""
        parts, seen, problems, duplicates = Parts(), set[str](), list[str](), 0
        for row in rows:
            try:
                label = self.strata.label(row)
                instance = self._instance(row, label)
            except ValueError as error:
                problems.append(f"{row.line}: {error}")
                continue
            duplicates += instance.id in seen
            if instance.id not in seen:
                seen.add(instance.id)
                parts.setdefault(label, []).append(instance)
            if len(parts) > MAX_STRATA:
                problem = f"{self.strata.column} names more than {MAX_STRATA} strata"
                raise DataError(f"{self.source}: {problem}; set strata.bins, or name another column")
        if problems:
            places = "; ".join([*problems[:5], *["..."] * (len(problems) > 5)])
            unusable = f"{len(problems)} rows cannot be used: {places}"
            raise DataError(f"{self.source}: {unusable}; mend or remove them")
        parts, content = {label: parts[label] for label in self.strata.sorted(parts)}, hashlib.sha256()
        for instance in chain.from_iterable(parts.values()):
            content.update(canonical_json(instance).encode())
        counts = tuple((label, len(part)) for label, part in parts.items())
        return parts, Described(sha256=content.hexdigest(), rows=counts, duplicates=duplicates, scorer=code)

    def _instance(self, row: Row, label: str) -> Instance:
        """Return the instance of a row; questions that are equal but for white space and case have one id."""
        question = _cell(row, self.prompt, prompt_of)
        texts = {field: _cell(row, field, text_of) for field in filter(None, self._fields)}
        answer = texts.get(self.answer) or _FIELD.sub(lambda match: texts[match[1]], self.answer)
        identity = " ".join(unicodedata.normalize("NFC", question).casefold().split())
        return Instance(
            id=hashlib.sha256(f"dataset\n{identity}".encode()).hexdigest()[:32],
            stratum=stratum_name(label),
            question=question,
            answer=answer,
            payload=self.payload(row, answer),
        )


def _cell(row: Row, column: str, read: Callable[[Any], str]) -> str:
    """Return the text of a column; ValueError if there is none."""
    try:
        text = read(row.get(column))
    except ValueError as error:
        raise ValueError(f"{column} {error}") from None
    if not text:
        raise ValueError(f"{column} is empty")
    return text


def stratum_name(label: str) -> str:
    """Return the name of a stratum in configs: letters, digits and underscores of its label."""
    return re.sub(r"[^A-Za-z0-9]+", "_", label).strip("_") or "_"
