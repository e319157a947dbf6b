"""The environment `verifiers`: questions and rewards of a taskset of the library verifiers 0.4.

environment:
  name: verifiers
  options: {source: ./mine.py, strata: {column: level}, answer: answer}

The library wants other versions of packages than envwright does, so its tasks run under another interpreter.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Self

from pydantic import Field, JsonValue, ValidationInfo, field_validator, model_validator

from envgen.environment import Instance
from envgen.errors import ConfigError, DataError
from envgen.module.worker import GeneratorError, Worker
from envgen.table.environment import RowEnvironment
from envgen.table.files import MAX_ROWS, Row, check_columns, prompt_of, text_of
from envgen.table.options import Described, RowOptions, absolute, grouped, text_instance
from envgen.table.verifiers_tasks import PAGE

PYTHON = "ENVWRIGHT_VERIFIERS_PYTHON"
_PYTHON = Path(".venv-verifiers") / "bin" / "python"


class Options(RowOptions):
    """Options of `verifiers`."""

    source: str
    """Name of an installed taskset, as `gsm8k-v1`, or path of a module or package."""
    config: dict[str, JsonValue] = {}
    """Fields of the taskset's config, as `{split: test, task: {rewards: {format: {weight: 0}}}}`."""
    limit: int | None = Field(default=None, ge=1, le=MAX_ROWS)
    """Number of tasks to read; all if left out."""
    answer: str = ""
    """Field of reference answers, which have to be valid; none if left out."""
    threshold: float = Field(default=1.0, gt=0, le=1)
    """Lowest reward of a valid answer."""

    @field_validator("source")
    @classmethod
    def _absolute(cls, value: str, info: ValidationInfo) -> str:
        """Return a path from the folder of the preset; a name as it is."""
        return absolute(value, info, (".py",))

    @model_validator(mode="after")
    def _describe(self) -> Self:
        if self.described:
            return self
        worker = None
        try:
            worker = self.worker(None)
            return self.model_copy(update={"described": read_tasks(self, worker)[1]})
        except (ConfigError, DataError, GeneratorError) as error:
            raise ValueError(str(error).removeprefix(f"{self.source}: ")) from None
        finally:
            if worker:
                worker.close()

    def worker(self, sha256: str | None) -> Worker:
        """Return the process that loads the tasks; ConfigError if no interpreter has verifiers."""
        arguments = {"source": self.source, "config": self.config, "limit": self.limit, "sha256": sha256}
        opener = "envgen.table.verifiers_tasks:Tasks"
        return Worker(opener, arguments, self.limits, python=find_python())


def find_python() -> str:
    """Return the path of a Python with verifiers: ENVWRIGHT_VERIFIERS_PYTHON, `.venv-verifiers`, or this one.

    ConfigError if there is none.
    """
    usual = str(_PYTHON) if os.access(_PYTHON, os.X_OK) else sys.executable
    python = os.path.abspath(os.environ.get(PYTHON) or usual)
    if not (os.access(python, os.X_OK) and _has_verifiers(python)):
        raise ConfigError(
            f"{python} has no verifiers 0.4; make an interpreter for it, `python -m venv .venv-verifiers && "
            f".venv-verifiers/bin/pip install 'verifiers>=0.4,<0.5'`, or name one in {PYTHON}"
        )
    return python


@lru_cache(maxsize=4)
def _has_verifiers(python: str) -> bool:
    code = "import importlib.util as util, sys; sys.exit(util.find_spec('verifiers.v1') is None)"
    return subprocess.run([python, "-P", "-c", code], capture_output=True).returncode == 0


def read_tasks(options: Options, worker: Worker) -> tuple[dict[str, list[Instance]], Described]:
    """Return the instances of a taskset by the labels of their strata, and its description; as `grouped`."""
    about = worker.call("describe")
    columns = [*filter(None, [options.answer, options.strata.column])]
    check_columns(options.source, about["columns"], columns)
    if not about["rows"]:
        raise DataError(f"{options.source}: has no tasks; give another taskset, or change config")

    def rows() -> Iterator[Row]:
        tops = [column.partition(".")[0] for column in columns]
        for start in range(0, about["rows"], PAGE):
            for number, task in enumerate(worker.call("rows", start, tops), start=start):
                values = {
                    **task["columns"],
                    "": (task["messages"], {"row": number, "digest": task["digest"]}),
                }
                yield Row(Path(options.source).stem, f"task {number}", values)

    def make(row: Row, label: str) -> Instance:
        messages, entry = row.values[""]
        answer = text_of(row.get(options.answer)) if options.answer else ""
        if options.answer and not answer:
            raise ValueError(f"{options.answer} is empty")
        return text_instance(label, prompt_of(messages), answer, {"entry": entry})

    parts, described = grouped(options.source, rows(), options, make)
    return parts, described.model_copy(update={"scorer": about["sha256"]})


class VerifiersEnvironment(RowEnvironment):
    """Tasks of the library verifiers with one question and one answer."""

    name = "verifiers"
    Options = Options
    styles = ("plain",)
    remedy = "source: mend its rewards, or set config, threshold or answer"

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.threshold = options.threshold

    @cached_property
    def worker(self) -> Worker:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Process that has loaded the tasks."""
        return self.options.worker(self.described.scorer)

    def read(self) -> tuple[dict[str, list[Instance]], Described]:
        """Return the instances of the taskset, as `read_tasks`."""
        return read_tasks(self.options, self.worker)
