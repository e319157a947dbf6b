"""Kill a whole run before and after every file operation that it makes, resume it, and compare it with one
that nobody killed.

`make faults` tries all of them and prints the table of docs/faults.md; `FAULTS="--every 20"` tries some. The
trainer and the engine are replayed from a recorded run, everything else is the run itself, in one process
without a server. The trainer has cells of its own, in which it trains. A resumed run has to complete, with
the same files and the same digests of all that its steps wrote; it has lost nothing, and no step that was
done is done again."""

import argparse
import json
import logging
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before anything imports torch

import replay
from injection import Fault, Operation, forked, killed, recorded
from outcomes import (
    LINKED,
    READ_ONLY,
    RUN,
    TRAINING,
    Cell,
    Outcome,
    State,
    done,
    repeated,
    state,
    table,
)

from envgen.processes import die_with_parent
from policy.grpo.canary import CANARY
from policy.grpo.train_spec import CHECKPOINT, TRAIN_LOG

SIGKILL = -9
OPEN = "open to write"
STORE = "mlflow.db"
NOBODY = 65534
RECORDING = 3600
"""Seconds that the recorded run may take, in which models work."""
LAST_TOLD = 10
"""Seconds between two lines that say how far it is."""


class Scene(NamedTuple):
    """What the cells of a part begin with, and what they have to end with."""

    folder: Path
    start: Path
    """A folder of runs that each cell copies."""
    go: Callable[[Path], Any]
    """Runs, or goes on, in a folder of runs."""
    whole: State
    made: list[Operation]


def main(arguments: Sequence[str]) -> int:
    """Run the cells and print their tables; 1 if a cell has a problem."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--every", type=int, default=1, help="only every n-th operation (1)")
    parser.add_argument("--stages", type=int, default=2, help="stages of the run (2)")
    parser.add_argument("--jobs", type=int, default=2, help="cells at the same time (2)")
    parser.add_argument("--no-training", action="store_true", help="without the cells of the trainer")
    parser.add_argument("--folder", type=Path, help="where to work; kept if given, with the recorded run")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="envwright-faults-"))
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)  # one cell works as another user
    try:
        outcomes = list(tried_all(folder.resolve(), options))
    finally:
        if options.folder is None:
            shutil.rmtree(folder)
    print("\n" + table(outcomes))
    return int(not all(outcome.good for outcome in outcomes))


def tried_all(folder: Path, options: argparse.Namespace) -> Iterator[Outcome]:
    """The outcomes of all parts."""
    tape, errors = folder / "tape", folder / "errors.log"
    run = partial(replay.run, stages=options.stages)
    real = tape / "runs"
    if not replay.is_recorded(tape):
        print("a run is recorded, with its trainer and its engine", flush=True)
        shutil.rmtree(tape, ignore_errors=True)
        record = partial(replay.record, real, tape, stages=options.stages)
        _must(forked(record, errors, patience=RECORDING), errors)
    shutil.rmtree(folder / "cells", ignore_errors=True)
    folder /= "cells"
    # In this process, so that its forks have all imports and charts.
    replay.replay(tape)
    run(folder / "warm")
    start = folder / "start"
    _must(forked(partial(replay.make_store, start), errors), errors)
    scene = made_scene(folder / "whole", start, run)
    if scene.whole.outputs != state(real / replay.NAME).outputs:
        raise SystemExit("the replayed run wrote other files than the recorded one")
    chosen = [cell for cell in cells(RUN, scene) if cell.fault.number % options.every == 0]
    yield from tried(chosen, scene, options.jobs)
    every = cells(LINKED, scene)
    middle = every[len(every) // 2]
    yield from tried([middle, middle._replace(part=READ_ONLY)], scene, options.jobs)
    if not options.no_training:
        import policy.grpo.training  # noqa: F401  its cells are forks of this process too

        start = replay.before_training(folder / "warm", folder)
        scene = made_scene(folder / "trained", start, replay.train_only)
        yield from tried(training_cells(scene), scene, options.jobs)


def made_scene(folder: Path, start: Path, go: Callable[[Path], Any]) -> Scene:
    """What happens when nobody kills it."""
    told, errors = folder / "operations", folder / "errors"
    runs = Path(shutil.copytree(start, folder / "runs"))

    def whole() -> None:
        recorded(runs, told)
        go(runs)

    _must(forked(whole, errors), errors)
    made = [Operation(*json.loads(line)) for line in told.read_text().splitlines()]
    return Scene(folder, start, go, state(runs / replay.NAME), made)


def cells(part: str, scene: Scene) -> list[Cell]:
    """Before every operation; and after those whose end is not the beginning of the next one: between two of
    them nothing changes but what is written to the file that was opened, so the others are the same."""
    found = []
    for number, made in enumerate(scene.made, start=1):
        ends = made.kind == OPEN or number == len(scene.made)
        found += [Cell(part, made, Fault(number, after)) for after in ((False, True) if ends else (False,))]
    return found


def training_cells(scene: Scene) -> list[Cell]:
    """Before the first and after the last file of each of the trainer's checkpoints; before and after the
    moves of what a finished training leaves, and of its record."""
    found, saves = [], {}
    for number, made in enumerate(scene.made, start=1):
        path = Path(made.path)
        if made.kind == "rename" and path.name in {TRAIN_LOG, CANARY, CHECKPOINT, "train.json"}:
            found += [Cell(TRAINING, made, Fault(number, after)) for after in (False, True)]
        for part in path.parts:
            if part.startswith("checkpoint-") and made.kind in {OPEN, "make a folder"}:
                saves.setdefault(part, []).append((number, made))
    for (first, one), *_, (last, other) in saves.values():
        found += [Cell(TRAINING, one, Fault(first, False)), Cell(TRAINING, other, Fault(last, True))]
    return found


def tried(chosen: Sequence[Cell], scene: Scene, jobs: int) -> Iterator[Outcome]:
    """The outcomes of cells, some at a time; says how far it is."""
    began = told = time.monotonic()
    forks = multiprocessing.get_context("fork")
    with forks.Pool(jobs, initializer=die_with_parent, initargs=(os.getpid(),)) as pool:
        for number, outcome in enumerate(pool.imap_unordered(partial(attempt, scene), chosen), start=1):
            now = time.monotonic()
            if now - told > LAST_TOLD or number == len(chosen):
                told, left = now, (now - began) / number * (len(chosen) - number)
                far = f"{number} of {len(chosen)} cells, {left / 60:.0f} min left"
                print(f"{outcome.cell.part}: {far}", flush=True)
            if not outcome.good:
                print(f"{outcome}", flush=True)
            yield outcome


def attempt(scene: Scene, cell: Cell) -> Outcome:
    """Kill, resume, compare."""
    number, after = cell.fault
    folder = scene.folder / f"{cell.part}-{number}-{after}".replace(" ", "-")
    runs, told, errors = folder / "runs", folder / "told", folder / "errors"
    shutil.copytree(scene.start, runs)
    run = runs / replay.NAME
    if cell.part == LINKED:
        (folder / "elsewhere").mkdir()
        run.symlink_to(folder / "elsewhere")

    def until_killed() -> None:
        killed(folder if cell.part == LINKED else runs, cell.fault, told)
        scene.go(runs)

    try:
        status = forked(until_killed, errors)
        hit = Operation(*json.loads(told.read_text())) if told.exists() else None
        outcome = Outcome(cell, killed=status == SIGKILL and (hit == cell.operation or cell.part == LINKED))
        if not outcome.killed:
            return outcome._replace(said=f"status {status}, at {hit}: {_end(errors)}")
        if cell.part == READ_ONLY and (said := _refused(scene, folder, errors)):
            return outcome._replace(said=said)
        before = done(run)
        if status := forked(partial(scene.go, runs), errors):
            return outcome._replace(said=f"not resumed, status {status}: {_end(errors)}")
        found = state(run)
        lost, differs = found.lacks(scene.whole), found.differs(scene.whole)
        same_weights = found.weights == scene.whole.weights
        if cell.part != TRAINING and not same_weights:
            differs.append("other weights")
        if cell.part == LINKED and not run.is_symlink():
            differs.append("the link is no link any more")
        return outcome._replace(
            resumed=True,
            equal=not differs,
            same_weights=same_weights,
            lost=len(lost),
            repeated=len(repeated(run, before)),
            said="; ".join([*lost, *differs, *repeated(run, before)]),
        )
    finally:
        shutil.rmtree(folder)


def _refused(scene: Scene, folder: Path, errors: Path) -> str:
    """What is wrong with how a run ends whose directory must not be written; empty if nothing is."""
    from flows.cli import _explain

    runs, said = folder / "runs", folder / "said"
    below = [path for path in (runs / replay.NAME).rglob("*") if path.is_dir()]
    before = state(runs / replay.NAME)

    def go() -> None:
        if os.geteuid() == 0:  # whom no mode stops
            os.setresuid(NOBODY, NOBODY, NOBODY)
        try:
            scene.go(runs)
        except Exception as error:
            said.write_text(str(_explain(error)))

    said.touch()
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, -1) if os.geteuid() == 0 else None
    for path in (*below, runs / replay.NAME):
        path.chmod(0o555)
    status, code = forked(go, errors), said.read_text()
    for path in (*below, runs / replay.NAME):
        path.chmod(0o755)
    if status or code != "2":
        return f"read-only: status {status}, exit code {code or 'none'}: {_end(errors)}"
    return "" if state(runs / replay.NAME) == before else "read-only, and changed"


def _must(status: int, errors: Path) -> None:
    if status:
        raise SystemExit(f"status {status}: {_end(errors)}")


def _end(errors: Path) -> str:
    return errors.read_text(errors="replace")[-2000:] if errors.exists() else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
