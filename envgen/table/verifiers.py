"""The environment `verifiers`: questions and rewards of a taskset of the library verifiers 0.4.

environment:
  name: verifiers
  options: {source: ./mine.py, strata: {column: level}, answer: answer}

The library wants other versions of packages than envwright does, so its tasks run under another interpreter.
"""

import os
import subprocess
import sys
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import Field, JsonValue

from envgen.dataset import check_columns
from envgen.errors import ConfigError, DataError
from envgen.module.worker import Worker
from envgen.table.environment import RowEnvironment
from envgen.table.files import MAX_ROWS, REMEDY, Row
from envgen.table.options import Described, Parts, RowOptions
from envgen.table.verifiers_tasks import ENTRY, MESSAGES, PAGE

PYTHON = "ENVWRIGHT_VERIFIERS_PYTHON"
_PYTHON = Path(".venv-verifiers") / "bin" / "python"


class Options(RowOptions):
    """Options of `verifiers`."""

    prompt = MESSAGES
    source: str
    """Name of an installed taskset, as `reverse-text`, or path of a module or package."""
    config: dict[str, JsonValue] = {}
    """Fields of the taskset's config, as `{split: test, task: {rewards: {format: {weight: 0}}}}`."""
    limit: int | None = Field(default=None, ge=1, le=MAX_ROWS)
    """Number of tasks to read; all if left out."""
    answer: str = ""
    """Field of reference answers, which have to be valid, or a text with fields, as `<a>{answer}</a>`."""
    threshold: float = Field(default=1.0, gt=0, le=1)
    """Lowest reward of a valid answer."""

    def worker(self) -> Worker:
        """Return the process that loads the tasks; ConfigError if no interpreter has verifiers."""
        code = self.described and self.described.scorer
        arguments = {"source": self.source, "config": self.config, "limit": self.limit, "sha256": code}
        opener = "envgen.table.verifiers_tasks:Tasks"
        return Worker(self.source, opener, arguments, self.limits, find_python())

    def read(self, worker: Worker) -> tuple[Parts, Described]:
        """Return the instances of the taskset, and their description; as `grouped`."""
        about = worker.call("describe")
        check_columns(self.source, about["columns"], self.columns, REMEDY)
        if not about["rows"]:
            raise DataError(f"{self.source}: has no tasks; give another taskset, or change config")
        tops = [column.partition(".")[0] for column in self.columns]
        tasks = chain.from_iterable(worker.call("rows", n, tops) for n in range(0, about["rows"], PAGE))
        name = Path(self.source).stem
        rows = (Row(name, f"task {number}", values) for number, values in enumerate(tasks))
        return self.grouped(rows, about["sha256"])

    def payload(self, row: Row, answer: str) -> dict[str, Any]:
        """Return the number of a task, and its digest."""
        return {"entry": row.values[ENTRY]}


def find_python() -> str:
    """Return the path of a Python with verifiers: ENVWRIGHT_VERIFIERS_PYTHON, `.venv-verifiers`, or this one.
    ConfigError if there is none."""
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


class VerifiersEnvironment(RowEnvironment):
    """Tasks of the library verifiers with one question and one answer."""

    name = "verifiers"
    Options = Options
    styles = ("plain",)

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.threshold = options.threshold
