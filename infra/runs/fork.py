"""Start a curriculum from the finished stage 0 of another one: files are linked or copied, and the steps
find themselves done."""

import os
import shutil
from pathlib import Path

from engineer.gate import BASE_POLICY
from envgen.files import sync_directory, write_json
from infra.config.preset import Preset
from infra.runs.files import CURRICULUM
from infra.runs.run import Run, new_curriculum
from infra.runs.steps import RECORDS, read_record

SHARED = "shared"
"""Name of the run whose stage 0 the runs of a comparison start from."""
STAGE_STEPS = ("generate", "train", "evaluate", "summarize")


def fork(source: Path, target: Path, preset: Preset) -> None:
    """Make the run directory `target` of a preset with the stage 0 of `source`; nothing happens if it exists.

    What the engineer wrote is left behind. The directory appears under its name when it is complete. A step
    whose files are missing or damaged is not done, and is simply done again."""
    if target.exists():
        return
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shared, copy = Run(directory=source), Run(directory=partial)
    for stage, steps in ((None, ("validation",)), (BASE_POLICY, ("start",)), (0, STAGE_STEPS)):
        _take(shared.folder(stage), copy.folder(stage), steps)
    copy.write(CURRICULUM, new_curriculum(target.name, preset, shared.commit))
    os.replace(partial, target)
    sync_directory(target.parent)


def _take(source: Path, target: Path, steps: tuple[str, ...]) -> None:
    (target / RECORDS).mkdir(parents=True, exist_ok=True)
    for step in steps:
        record = read_record(source, step)
        if record is None:
            continue
        for name in record.outputs:
            if (source / name).is_dir():
                shutil.copytree(source / name, target / name, copy_function=_link)
            elif (source / name).exists():
                _link(source / name, target / name)
        write_json(target / RECORDS / f"{step}.json", record)


def _link(source: str | Path, target: str | Path) -> None:
    """A second name of the file where the disk can do that, else a copy. No step writes into a file that is
    there."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
