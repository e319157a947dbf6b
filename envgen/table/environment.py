"""The environment `dataset`: a user's table of prompts and answers; its rows are the instances.

environment:
  name: dataset
  options: {source: ./mine.jsonl, prompt: question, strata: {column: level}, scorer: number}

Validation set, test set and training data are drawn from the rows; no row is in two of them. Rows with equal
prompts, but for white space and case, are one instance.
"""

import json
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from envgen.environment import Instance, Sample, Source
from envgen.errors import ConfigError, ShortageError, UnreadableError, excerpt
from envgen.files import canonical_json
from envgen.module.environment import SCORER_FAILED, WorkerEnvironment
from envgen.module.worker import Worker
from envgen.seeds import generator
from envgen.space import Stratum
from envgen.table.files import Row, read_rows
from envgen.table.options import Described, Parts, RowOptions, stratum_name
from envgen.table.scorers import READERS

TRIED_ROWS = 5
"""Rows of each stratum on which a scorer is tried before a run."""
WRONG = ("?", "0", "banana")
"""Answers on which a scorer is tried; it must not fail on them."""


class RowEnvironment(WorkerEnvironment):
    """Base of environments whose instances are rows with a prompt, by strata."""

    def __init__(self, options: Any) -> None:
        assert options.described
        self.options, self.described = options, options.described
        self.version = f"1 {canonical_json(options.described)}"
        noun = options.strata.column.replace("_", " ") or "part"
        labels = [label for label, _ in self.described.rows]
        words = {label: f"{noun} {label}" if label[0].isdigit() else label for label in labels}
        self.space = self._space(
            False,
            strata=tuple(Stratum(name=stratum_name(label), label=words[label]) for label in labels),
            noun=noun,
            task=options.task or f"answers the questions of {Path(options.source).stem}",
        )

    @cached_property
    def rows(self) -> dict[str, list[Instance]]:
        """Stratum -> instances; ConfigError if the table changed."""
        parts, described = self.options.read(self.worker)
        if described.sha256 != self.described.sha256:
            remedy = "put it back, or begin another run"
            raise ConfigError(f"{self.options.source}: the rows changed since the run began; {remedy}")
        return {stratum_name(label): instances for label, instances in parts.items()}

    def capacity(self, stratum: str) -> int:
        """Return the number of distinct rows of a stratum."""
        return next(rows for label, rows in self.described.rows if stratum_name(label) == stratum)

    def generate(
        self, stratum: str, knobs: Mapping[str, float], count: int, source: Source, held_out: frozenset[str]
    ) -> Sample:
        """Return `count` rows, those that earlier stages used least before all others, then at random.
        ShortageError with all rows if there are too few."""
        rows, used = self.rows[stratum], Counter(source.used)
        order = generator(*source.key, stratum).permutation(len(rows)).tolist()
        free = [rows[place] for place in order if rows[place].id not in held_out]
        drawn = sorted(free, key=lambda instance: used[instance.id])[:count]
        if len(drawn) < count:
            short = f"only {len(drawn)} of {count} rows exist beside validation and test set"
            raise ShortageError(f"{self.space.label(stratum)}: {short}; ask for fewer", drawn)
        again = sum(instance.id in used for instance in drawn)
        return Sample(drawn, {"instances": count, "used before": again})

    def longest_prompt(self, style: str) -> str:
        """Return the longest prompt; ConfigError if the scorer fails on one of a few answers."""
        for row in chain.from_iterable(part[:TRIED_ROWS] for part in self.rows.values()):
            for answer in filter(None, (row.answer, *WRONG)):
                verdict = self.judge_one(row, answer)
                if verdict.category == SCORER_FAILED or (answer == row.answer and not verdict.valid):
                    problem = f"{excerpt(answer)} to {excerpt(row.question)}: {verdict.detail}"
                    raise ConfigError(f"environment.options: {problem}; mend the scorer, or set another one")
        return max((self.prompt(row, style) for row in chain.from_iterable(self.rows.values())), key=len)


class Options(RowOptions):
    """Options of `dataset`."""

    source: str
    """File (.parquet, .jsonl, .csv), folder of such files, or name for `datasets.load_dataset`."""
    load: dict[Literal["name", "split", "revision"], str] = {"split": "train"}
    """Arguments of `datasets.load_dataset`, as `{name: main, split: train}`."""
    prompt: str = "prompt"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Column of texts, or of messages with a single turn; `a.b` is the field `b` of the column `a`."""
    answer: str = Field(default="answer", min_length=1)
    """Column of reference answers, or a text with columns, as `<a>{answer}</a>`."""
    metadata: tuple[str, ...] = ()
    """Columns that a scorer in a file needs."""
    scorer: str = Field(default="exact", pattern=r"^(exact|number|choice|math|json|.+\.py:[A-Za-z_]\w*)$")
    """How an answer is compared, or a function, as `./mine.py:score`."""

    def worker(self) -> Worker:
        """Return the process of the scorer, which starts at its first request: never for `READERS`."""
        path, _, function = self.scorer.rpartition(":")
        code = self.described and self.described.scorer
        arguments = {"path": path, "function": function, "sha256": code} if path else {}
        opener = "envgen.module.user_file:UserFile" if path else "envgen.table.scorers:MathScorer"
        return Worker(self.scorer, opener, arguments, self.limits)

    def read(self, worker: Worker) -> tuple[Parts, Described]:
        """Return the instances of the table, and their description; errors as `read_rows` and `grouped`."""
        rows = read_rows(self.source, [self.prompt, *self.columns, *self.metadata], self.load)
        return self.grouped(rows, None if self.scorer in READERS else worker.call("describe"))

    def payload(self, row: Row, answer: str) -> dict[str, Any]:
        """Return the columns that a scorer needs; ValueError if it cannot read the answer."""
        try:
            READERS.get(self.scorer, str)(answer)
        except UnreadableError as error:
            where = f"{self.answer} is {excerpt(answer)}"
            raise ValueError(f"{where}: {error} for scorer {self.scorer}") from None
        metadata = json.loads(canonical_json({column: row.get(column) for column in self.metadata}))
        return {"metadata": metadata} if metadata else {}


class DatasetEnvironment(RowEnvironment):
    """Rows of your own table: Parquet, JSON lines, CSV, or a data set of the Hugging Face hub."""

    name = "dataset"
    Options = Options

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.file = Path(options.scorer.rpartition(":")[0]) if ":" in options.scorer else None
        self.requirements = ("math-verify[antlr4_13_2]==0.9.0",) if options.scorer == "math" else ()

    def score(self, instance: Instance, answer: str) -> Any:
        """Return what the scorer says of an answer; errors as in the base class."""
        if reader := READERS.get(self.options.scorer):
            return float(reader(answer) == reader(instance.answer))
        entry = {"question": instance.question, "answer": instance.answer, **instance.payload}
        score = self.worker.call("score", entry, answer)
        if score is None and self.file is None:
            raise UnreadableError("no mathematical expression")
        return score
