"""Start a curriculum from the finished stage 0 of another one, whose files are linked or copied."""

import os
import shutil
from pathlib import Path

from envgen.errors import RunDirectoryError
from envgen.files import sync
from infra.config.preset import Preset
from infra.runs import files
from infra.runs.run import Run

SHARED = "shared"
"""Name of the run whose stage 0 the runs of a comparison start from."""
_OWN = (
    *("curriculum.json", "results.json", "report.html", "mlflow.json", "logs", "work"),
    *("manifest.json", "gate.json", "proposal.json", "engineer_state.json", "engineer.json"),
    *("*.lock", ".*.partial"),
)
"""What a run does not share: what its gate and its engineer said, its records, logs and locks."""
_TEST = ("test.parquet", "test_rollouts.parquet", "test-set.json", "test.json")
"""Test set, rollouts and records of their steps: shared by runs that have a test set."""


def fork(source: Path, target: Path, preset: Preset) -> None:
    """Make the run directory `target` of a preset with the stage 0 of `source`; nothing happens if it exists.

    The directory appears under its name when it is complete. RunDirectoryError without a complete stage 0."""
    if target.exists():
        return
    shared = Run(directory=source)
    if not shared.has(files.MANIFEST, 0):
        remedy = "give this machine the ENVWRIGHT_RUNS of the one that ran it"
        problem = "this run starts from that stage, which is missing"
        raise RunDirectoryError(f"{shared.folder(0)}: {problem}; {remedy}")
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    ignored = shutil.ignore_patterns(*_OWN, *(() if preset.test else _TEST))
    shutil.copytree(source, partial, ignore=ignored, copy_function=_link)
    curriculum = files.Curriculum(name=target.name, preset=preset, commit=shared.commit)
    Run(directory=partial).write(files.CURRICULUM, curriculum)
    os.replace(partial, target)
    sync(target.parent)


def _link(source: str, target: str) -> None:
    """Give a file a second name where the disk can do that, else copy it; steps only replace files."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
