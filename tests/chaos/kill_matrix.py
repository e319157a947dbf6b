"""Kill every part of a running curriculum at every step, resume it, and check that nothing was lost or done
twice.

`make chaos` runs the whole matrix and prints its table; `python tests/chaos/kill_matrix.py --only flow:train`
some of its cells.

A step is stopped at its beginning from outside, by holding the file lock that it takes; `training` and
`answering` are killed in the middle of the work of a child process, `approval` while the run is suspended.
Each cell starts from a copy of the same finished stage 0, on a Prefect server and a worker of its lane, and
is compared with a run that nobody killed."""

import argparse
import itertools
import json
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from lane import Lane, command_line, copy_stage_zero

from envgen.files import file_digest
from infra.runs.stage import Stage
from infra.runs.steps import read_record, stage_directory

STEPS = ("generate", "train", "evaluate", "summarize", "gate", "engineer", "pilot", "choose")
RESUMES = ("retry", "new run", "command")
BASE = "whole"


class Cell(NamedTuple):
    """What is killed, where, and how the run is resumed."""

    killed: str
    """flow, worker, child, server, or machine: all of them."""
    at: str
    """A step of stage 1 at its beginning, `training` or `answering` in their middle, or `approval`."""
    resumed: str

    def __str__(self) -> str:
        return f"{self.killed}:{self.at}"


class Outcome(NamedTuple):
    """How a cell ended."""

    cell: Cell
    left: str
    """State of the flow run before it was resumed."""
    problems: tuple[str, ...]
    seconds: float


def cells() -> list[Cell]:
    """The matrix, the ways to resume in turn."""
    at = ("generate", "train", "training", "evaluate", "engineer", "pilot", "choose")
    pairs = [(killed, step) for step in at for killed in ("flow", "worker", "server", "machine")]
    pairs += [("child", step) for step in ("training", "answering", "engineer")]
    pairs += [(killed, "approval") for killed in ("worker", "server", "machine")]
    return [
        Cell(killed, step, resumed)
        for (killed, step), resumed in zip(pairs, itertools.cycle(RESUMES), strict=False)
    ]


def main() -> None:
    """Run the cells that are asked for, some at a time; exit code 1 if one of them has a problem."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cells as KILLED:AT with commas between them")
    parser.add_argument("--lanes", type=int, default=2, help="cells at a time, each with a server of its own")
    parser.add_argument("--folder", type=Path, help="where to work; kept if given")
    chosen = parser.parse_args()
    wanted = set(filter(None, chosen.only.split(",")))
    todo = [cell for cell in cells() if not wanted or str(cell) in wanted]
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="envwright-chaos-"))
    try:
        outcomes = run_matrix(todo, folder, chosen.lanes)
    finally:
        if chosen.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    print("\n" + table(outcomes))
    sys.exit(any(outcome.problems for outcome in outcomes))


def run_matrix(todo: list[Cell], folder: Path, lanes: int) -> list[Outcome]:
    """The outcomes of the cells, in order."""
    base = folder / "base" / BASE
    if not (stage_directory(base, 1) / "manifest.json").exists():
        command_line(base.parent, BASE)
    print(f"{len(todo)} cells, {lanes} at a time, in {folder}", flush=True)
    free = [Lane(folder / f"lane-{number}") for number in range(min(lanes, len(todo)))]

    def one(cell: Cell) -> Outcome:
        lane = free.pop()
        try:
            outcome = run_cell(cell, lane, base)
        finally:
            free.append(lane)
        print(f"{cell}: {'; '.join(outcome.problems) or 'ok'} ({outcome.seconds:.0f} s)", flush=True)
        return outcome

    everyone = list(free)
    try:
        for lane in everyone:
            lane.up()
        with ThreadPoolExecutor(len(everyone)) as pool:
            return list(pool.map(one, todo))
    finally:
        for lane in everyone:
            lane.down()


def run_cell(cell: Cell, lane: Lane, base: Path) -> Outcome:
    """Start a curriculum from the stage 0 of `base`, kill, resume, compare."""
    started = time.monotonic()
    run = lane.runs / f"{cell.killed}-{cell.at}-{cell.resumed}".replace(" ", "-")
    try:
        copy_stage_zero(base, run)
        approval = "required" if cell.at == "approval" else "none"
        with lane.held(cell.at, run) as reached:
            flow_run = lane.start(run.name, approval)
            victims = reached(flow_run)
            done = finished_steps(run)
            lane.kill(cell.killed, victims)
        lane.up()
        lane.settle(victims, flow_run)
        left = lane.state(flow_run)["name"]
        problems = (
            []
            if cell.at != "approval" or left == "Suspended"
            else [f"the suspended run was {left} afterwards"]
        )
        if cell.at == "approval":
            lane.approve(flow_run)
            lane.completed(flow_run)
        elif left != "Completed":
            lane.resume(cell.resumed, flow_run, run.name, approval)
        problems += differences(base, run, done) + lane.records(run)
        return Outcome(cell, left, tuple(problems), time.monotonic() - started)
    except Exception as error:  # a cell that cannot be carried out is a finding too
        lane.up()
        return Outcome(cell, "?", (f"{type(error).__name__}: {error}",), time.monotonic() - started)


def finished_steps(run: Path) -> dict[str, int]:
    """When each finished step of both stages was recorded, to see later that it was not done again."""
    return {
        f"{stage} {step}": path.stat().st_mtime_ns
        for stage in (0, 1)
        for step in STEPS
        if (path := _record(run, stage, step)).exists()
    }


def differences(base: Path, run: Path, done: dict[str, int]) -> list[str]:
    """What a resumed run has that the uninterrupted one has not, or the other way round."""
    found = []
    stages = sorted(path.name for path in run.glob("stage-*"))
    if stages != ["stage-00", "stage-01"]:
        found.append(f"stages {stages}")
    for stage, name in itertools.product((0, 1), ("config.json", "train.parquet")):
        one, other = (stage_directory(directory, stage) / name for directory in (base, run))
        if not other.exists() or file_digest(one) != file_digest(other):
            found.append(f"stage {stage}: {name} differs")
    if file_digest(base / "validation.parquet") != file_digest(run / "validation.parquet"):
        found.append("the validation set differs")
    for stage in (0, 1):
        if not (stage_directory(run, stage) / "manifest.json").exists():
            found.append(f"stage {stage} has no manifest")
        found += [
            f"stage {stage}: {step} is not done"
            for step in STEPS
            if read_record(stage_directory(run, stage), step) is None
        ]
    again = [name for name, when in done.items() if _record(run, *_named(name)).stat().st_mtime_ns != when]
    found += [f"done twice: {name}" for name in again]
    if len(json.loads((run / "results.json").read_text())["stages"]) != 2:
        found.append("results.json does not hold two stages")
    one, other = (file_digest(stage_directory(directory, 1) / "checkpoint") for directory in (base, run))
    if one != other and exact(run):
        found.append("stage 1: other weights, and its manifest does not say so")
    # The same weights have to lead to the same proposals.
    if one == other and proposed(base) != proposed(run):
        found.append("the same checkpoint proposed something else")
    steps = [read_steps(directory) for directory in (base, run)]
    if steps[0] != steps[1]:
        found.append(f"training steps {steps[1]}, without a kill {steps[0]}")
    return found


def exact(run: Path) -> bool:
    """Whether the training of stage 1 was not resumed, or exactly."""
    return all(resume.exact for resume in Stage(directory=stage_directory(run, 1)).resumed)


def proposed(run: Path) -> list[tuple[dict, str]]:
    """Config and reason of all that was proposed after stage 1."""
    candidates = json.loads((stage_directory(run, 1) / "candidates.json").read_text())["candidates"]
    return [(candidate["proposal"]["config"], candidate["proposal"]["rationale"]) for candidate in candidates]


def read_steps(run: Path) -> list[int]:
    """The steps in the training log of stage 1."""
    from policy.grpo.train_log import read_train_log

    return list(map(int, read_train_log(stage_directory(run, 1) / "train_log.parquet")["step"]))


def table(outcomes: list[Outcome]) -> str:
    """The matrix in Markdown."""
    rows = [_row(outcome) for outcome in outcomes]
    good = sum(not outcome.problems for outcome in outcomes)
    head = [
        "| killed | at | state left | resumed by | data, stages, steps | time |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join(
        [*head, *rows, "", f"{good} of {len(outcomes)} cells end as if nothing had been killed."]
    )


def _row(outcome: Outcome) -> str:
    killed, at, how = outcome.cell
    return (
        f"| {killed} | {at} | {outcome.left} | {'form' if at == 'approval' else how} |"
        f" {'; '.join(outcome.problems) or 'same'} | {outcome.seconds:.0f} s |"
    )


def _record(run: Path, stage: int, step: str) -> Path:
    return stage_directory(run, stage) / ".steps" / f"{step}.json"


def _named(name: str) -> tuple[int, str]:
    stage, step = name.split()
    return int(stage), step


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
