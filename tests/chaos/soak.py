"""Thirty stages of the micro preset in one process: what it holds after each.

`make soak` prints the table of docs/faults.md; exit code 1 if memory, descriptors or temporary files grow on
and on. Databases grow by what they are told, so their growth is only given, a stage."""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.envwright_command import ENVWRIGHT, environment

NAME = "soak"
SHOWN = (1, 10, 20, 30)
SETTLED = 10
"""Stages after which all that a process loads once is loaded."""
MIB_A_STAGE = 2.0
"""Growth of memory that is allowed, from then on: a run holds the results of all of its stages, so some is
natural, and at this pace a run of 500 stages takes 1 GiB more."""
MIB = 2**20


class Held(NamedTuple):
    """What there is after a stage."""

    memory: float
    """MiB resident, of the process of the run."""
    descriptors: int
    temporary: int
    """Files and folders in TMPDIR."""
    mlflow: int
    """Bytes of MLflow's database, as the next."""
    prefect: int
    server: float
    """MiB resident, of Prefect's server."""


def soaked(folder: Path, stages: int) -> Iterator[Held]:
    """What is held after each stage of a run; the run is ended when it begins one more."""
    temporary = folder / "temporary"
    temporary.mkdir(parents=True)
    with open(folder / "log", "w") as log:
        child = subprocess.Popen(
            [*ENVWRIGHT, "run", "micro", "--stages", str(stages + 1), "--name", NAME],
            cwd=folder,
            env=environment(folder, TMPDIR=str(temporary)),
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
    process = psutil.Process(child.pid)
    try:
        for stage in range(stages):
            while not (folder / "runs" / NAME / f"stage-{stage + 1:02d}" / "config.json").exists():
                if child.poll() is not None:
                    raise SystemExit(
                        f"the run ended in stage {stage}:\n{(folder / 'log').read_text()[-3000:]}"
                    )
                time.sleep(0.05)
            yield held(process, folder, temporary)
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait()


def held(process: psutil.Process, folder: Path, temporary: Path) -> Held:
    """What there is now."""
    server = 0.0
    for one in process.children(recursive=True):
        with suppress(psutil.Error):  # a child that has just ended
            server += one.memory_info().rss / MIB if "uvicorn" in " ".join(one.cmdline()) else 0
    return Held(
        process.memory_info().rss / MIB,
        process.num_fds(),
        sum(1 for _ in temporary.rglob("*")),
        size(folder / "runs" / "mlflow.db"),
        size(folder / "prefect" / "prefect.db"),
        server,
    )


def size(database: Path) -> int:
    """Bytes of a database of SQLite, with what it has not merged yet."""
    return sum(path.stat().st_size for path in database.parent.glob(f"{database.name}*"))


def growing(found: Sequence[Held]) -> list[str]:
    """What grows on and on."""
    settled, last, stages = found[SETTLED - 1], found[-1], len(found) - SETTLED
    problems = []
    if (last.memory - settled.memory) / stages > MIB_A_STAGE:
        problems.append(f"memory: {settled.memory:.0f} MiB to {last.memory:.0f} MiB in {stages} stages")
    for name in ("descriptors", "temporary"):
        # What is in use at the moment differs; whatever is left by every stage, or every second, is more.
        if getattr(last, name) - getattr(settled, name) >= stages / 2:
            problems.append(f"{name}: {getattr(settled, name)} to {getattr(last, name)} in {stages} stages")
    return problems


def main(arguments: Sequence[str]) -> int:
    """Print the table; 1 if something grows on and on."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--stages", type=int, default=30, help=f"how many, more than {SETTLED} (30)")
    stages = parser.parse_args(arguments).stages
    found, began = [], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="envwright-soak-") as folder:
        for one in soaked(Path(folder), stages):
            found.append(one)
            left = (time.monotonic() - began) / len(found) * (stages - len(found))
            print(f"{len(found)} of {stages} stages, {left / 60:.0f} min left: {one}", flush=True)
    print(f"\n{table(found)}")
    problems = growing(found)
    print("\n".join(problems))
    return int(bool(problems))


def table(found: Sequence[Held]) -> str:
    """Some of the stages, in Markdown, and the growth of the databases."""
    lines = [
        "| after stage | memory, MiB | descriptors | temporary files | `mlflow.db`, KiB | `prefect.db`, KiB |"
        " Prefect's server, MiB |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for stage in (*(one for one in SHOWN if one < len(found)), len(found)):
        one = found[stage - 1]
        lines.append(
            f"| {stage} | {one.memory:.0f} | {one.descriptors} | {one.temporary} | {one.mlflow / 1024:,.0f} |"
            f" {one.prefect / 1024:,.0f} | {one.server:.0f} |"
        )
    first, last, stages = found[SETTLED - 1], found[-1], len(found) - SETTLED
    grown = [(getattr(last, name) - getattr(first, name)) / 1024 / stages for name in ("mlflow", "prefect")]
    return "\n".join(
        [
            *lines,
            "",
            f"MLflow's database grows by {grown[0]:.0f} KiB a stage, Prefect's by {grown[1]:.0f} KiB.",
        ]
    )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main(sys.argv[1:]))
