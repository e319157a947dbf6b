"""The environment `dataset`: a user's table of prompts and answers; its rows are the instances.

environment:
  name: dataset
  options: {source: ./mine.jsonl, prompt: question, strata: {column: level}, scorer: number}

Validation set, test set and training data are drawn from the rows; no row is in two of them. Rows with equal
prompts, but for white space and case, are one instance.
"""

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from envgen.environment import Instance, Sample, Source
from envgen.errors import ConfigError, ShortageError, UnreadableError, excerpt
from envgen.files import canonical_json
from envgen.module.environment import SCORER_FAILED, WorkerEnvironment
from envgen.module.worker import Worker
from envgen.seeds import generator
from envgen.space import Stratum
from envgen.table.options import Described, Options, open_worker, read_table, stratum_name
from envgen.table.scorers import READERS

TRIED_ROWS = 5
"""Rows of each stratum on which a scorer is tried before a run."""
WRONG = ("?", "0", "banana")
"""Answers on which a scorer is tried; it must not fail on them."""


class RowEnvironment(WorkerEnvironment):
    """Base of environments whose instances are rows with a prompt, by strata."""

    remedy: str
    """What to do about a scorer that fails, after the name of an option: `scorer: mend it`."""

    def __init__(self, options: Any) -> None:
        assert options.described
        self.options, self.described, self.source = options, options.described, options.source
        self.version = f"1 {canonical_json(options.described)}"
        noun = options.strata.column.replace("_", " ") or "part"
        labels = [label for label, _ in self.described.rows]
        words = {label: f"{noun} {label}" if label[0].isdigit() else label for label in labels}
        self.space = self._space(
            strata=tuple(Stratum(name=stratum_name(label), label=words[label]) for label in labels),
            noun=noun,
            task=options.task or f"answers the questions of {Path(options.source).stem}",
            guideline="Give most data to what is solved sometimes, little to what always or never is.",
            identity="textual",
        )

    def read(self) -> tuple[dict[str, list[Instance]], Described]:
        """Return the instances by the labels of their strata, and their description."""
        raise NotImplementedError

    @cached_property
    def rows(self) -> dict[str, list[Instance]]:
        """Stratum -> instances; ConfigError if the table changed."""
        parts, described = self.read()
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

        ShortageError with all rows if there are too few.
        """
        rows, used = self.rows[stratum], Counter(source.used)
        order = generator(*source.key, stratum).permutation(len(rows)).tolist()
        free = [rows[place] for place in order if rows[place].id not in held_out]
        drawn = sorted(free, key=lambda instance: used[instance.id])[:count]
        label = self.space.label(stratum)
        if len(drawn) < count:
            short = f"only {len(drawn)} of {count} rows exist beside validation and test set"
            raise ShortageError(f"{label}: {short}; ask for fewer", drawn)
        again = sum(instance.id in used for instance in drawn)
        report = {"instances": count, "used before": again}
        return Sample(drawn, report, f"{label}: {count} of {len(rows)} rows, {again} used before")

    def longest_prompt(self, style: str) -> str:
        """Return the longest prompt; ConfigError if the scorer fails on one of a few answers."""
        for row in chain.from_iterable(part[:TRIED_ROWS] for part in self.rows.values()):
            for answer in filter(None, (row.answer, *WRONG)):
                verdict = self.judge_one(row, answer)
                if verdict.category == SCORER_FAILED or (answer == row.answer and not verdict.valid):
                    problem = f"{excerpt(answer)} to {excerpt(row.question)}: {verdict.detail}"
                    option, _, remedy = self.remedy.partition(": ")
                    raise ConfigError(f"environment.options.{option}: {problem}; {remedy}")
        return max((self.prompt(row, style) for row in chain.from_iterable(self.rows.values())), key=len)


class DatasetEnvironment(RowEnvironment):
    """Rows of your own table: Parquet, JSON lines, CSV, or a data set of the Hugging Face hub."""

    name = "dataset"
    Options = Options
    remedy = "scorer: mend the scorer, or choose another one"

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.source = options.scorer
        self.file = Path(options.scorer.rpartition(":")[0]) if ":" in options.scorer else None
        self.requirements = ("math-verify[antlr4_13_2]==0.9.0",) if options.scorer == "math" else ()

    def read(self) -> tuple[dict[str, list[Instance]], Described]:
        """Return the instances of the table, as `read_table`."""
        return read_table(self.options)

    @cached_property
    def worker(self) -> Worker | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Process of the scorer, if it needs one."""
        return open_worker(self.options, self.described.scorer)

    def score(self, instance: Instance, answer: str) -> Any:
        """Return what the scorer says of an answer; errors as in the base class."""
        if reader := READERS.get(self.options.scorer):
            return float(reader(answer) == reader(instance.answer))
        entry = {"question": instance.question, "answer": instance.answer, **instance.payload}
        assert self.worker
        score = self.worker.call("score", entry, answer)
        if score is None and self.file is None:
            raise UnreadableError("no mathematical expression")
        return score
