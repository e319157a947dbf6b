"""A comparison on two workers that share only an S3-compatible store and PostgreSQL.

One is killed in the middle; the other takes up what it did, and all files are those of the same comparison on
one machine."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest
from support.envwright_command import ENVWRIGHT, ROOT, environment, envwright
from support.prefect_runs import eventually
from support.prefect_servers import processes_with
from support.s3_and_postgres import servers_on_stores

NAME = "shared"
COMPARE = ("compare", "micro", "--engineers", "fixed,random", "--seeds", "0,1", "--name", NAME, "--jobs", "4")
MADE = ("config.json", "train.parquet", "checkpoint", "breakdown.json", "proposal.json")
"""Of a stage: what a machine's clock or speed has no part in."""


@contextmanager
def running(folder: Path, command: list[str], **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command that works in `folder`, killed with all that it started at the end of the block."""
    folder.mkdir(exist_ok=True)
    with open(folder / "said.log", "w") as out:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment(folder, **more),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        yield process
    finally:
        kill_all(folder)
        process.wait(60)


def kill_all(folder: Path) -> None:
    """End a machine: kill -9 of all that works there."""
    for line in processes_with(ENVWRIGHT_RUNS=str(folder / "runs")):
        try:
            psutil.Process(int(line.partition(":")[0])).kill()
        except psutil.NoSuchProcess:
            continue


def curricula(folder: Path) -> dict[str, list[Path]]:
    """Curriculum -> its finished stages in this folder."""
    runs = (folder / "runs" / NAME).glob("*-s*/")
    return {run.name: sorted(path.parent for path in run.glob("stage-*/manifest.json")) for run in runs}


def made(folder: Path) -> dict[str, dict[str, str]]:
    """Curriculum and stage -> file -> digest."""
    found = {}
    for name, stages in curricula(folder).items():
        for stage in stages:
            files = json.loads((stage / "manifest.json").read_text())["files"]
            found[f"{name} {stage.name}"] = {file: files[file] for file in MADE if file in files}
    return found


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(2400)
def test_a_killed_worker_s_curricula_are_taken_up_and_end_as_on_one_machine(tmp_path: Path):
    head, one, two, alone = (tmp_path / name for name in ("head", "one", "two", "alone"))
    with ExitStack() as stack:
        servers = stack.enter_context(servers_on_stores(tmp_path))
        servers |= {"ENVWRIGHT_REMOTE": "s3://envwright/copies"}
        head.mkdir()
        deploy = [*ENVWRIGHT, "deploy", "--limit", "2", "--worker-folders"]
        done = subprocess.run(
            deploy, cwd=ROOT, env=environment(head, **servers), capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
        for folder in (one, two):
            worker = ["prefect", "worker", "start", "--pool", "local", "--limit", "1", "--name", folder.name]
            more = {**servers, "PREFECT_WORKER_QUERY_SECONDS": "2"}
            stack.enter_context(running(folder, [sys.executable, "-m", *worker], **more))
        stack.enter_context(running(tmp_path / "janitor", [*ENVWRIGHT, "janitor"], **servers))
        compared = stack.enter_context(running(head, [*ENVWRIGHT, *COMPARE], **servers))

        eventually(lambda: any(map(len, curricula(one).values())), 600)
        cut = [name for name, stages in curricula(one).items() if len(stages) < 2]
        kill_all(one)
        had = {name: len(stages) for name, stages in curricula(one).items()}
        assert compared.wait(1200) == 0, (head / "said.log").read_text()

        print(f"\ncut off on worker one: {', '.join(cut)}")
        for name, stages in sorted(curricula(head).items()):
            took = len(curricula(two).get(name, []))
            print(f"{name}: stages {len(stages)}, on worker one {had.get(name, 0)}, on worker two {took}")
        assert cut
        assert all(len(curricula(two)[name]) == 2 for name in cut), "the other worker took them up"
    alone.mkdir()
    envwright(alone, *COMPARE, "--jobs", "1", timeout=1200)
    assert made(head) == made(alone)
    assert len(made(head)) == 2 * len(curricula(alone))
    assert all({"train.parquet", "checkpoint"} <= files.keys() for files in made(head).values())
