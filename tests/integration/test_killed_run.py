"""A run killed at any of its steps, and extended by a stage, ends with the files of an unkilled one."""

import json
import os
import signal
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
from mlflow import MlflowClient
from prefect.context import refresh_global_settings_context
from support.envwright_command import FORKS
from support.finished_run import FinishedRun

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
STEPS = {"generate": "train.parquet", "train": "checkpoint", "evaluate": "rollouts.parquet"}
STEPS |= {"summarize": "breakdown.json", "gate": "gate.json", "engineer": "proposal.json"}
"""Step -> a file or folder that it writes."""


def step_outputs(run: Path) -> dict[str, dict[str, str]]:
    """Return the digests that each step recorded, without files that hold times."""
    timed, outputs = {"train_log.parquet", "proposal.json"}, {}
    for path in run.glob("**/.steps/*.json"):
        digests = json.loads(path.read_text())["outputs"]
        outputs[str(path.relative_to(run))] = {file: digests[file] for file in digests.keys() - timed}
    return outputs


def curriculum(server: str, runs: Path, stages: int, point: str = "") -> None:
    """Run the curriculum in this process, and kill it just before it gives a file its name `point`."""
    os.environ |= {"ENVWRIGHT_RUNS": str(runs), "PREFECT_API_URL": server}
    refresh_global_settings_context()
    from flows.curriculum import curriculum as curriculum_flow
    from flows.parameters import CurriculumOptions

    def watch(event: str, arguments: tuple) -> None:
        if event == "os.rename" and fnmatch(str(arguments[1]), f"*/{point}"):
            os.kill(os.getpid(), signal.SIGKILL)

    if point:
        sys.addaudithook(watch)
    curriculum_flow("simulated", "run", CurriculumOptions(stages=stages, settings={"instances": 16}))


def test_a_run_extended_and_killed_at_each_step_ends_like_an_unkilled_one(server: str, tmp_path: Path):
    def ended(folder: str, stages: int, point: str = "") -> int | None:
        process = FORKS.Process(target=curriculum, args=(server, tmp_path / folder, stages, point))
        process.start()
        process.join(120)
        return process.exitcode

    assert ended("unkilled", 2) == 0
    assert ended("killed", 1) == 0
    run, unkilled = tmp_path / "killed" / "run", tmp_path / "unkilled" / "run"
    first = (run / "stage-00" / "manifest.json").read_bytes()
    for step, output in STEPS.items():
        for point in (output, f".steps/{step}.json"):
            assert ended("killed", 2, f"stage-01/{point}") == -signal.SIGKILL
            assert not (run / "stage-01" / ".steps" / f"{step}.json").exists()
    for name in ("stage-01/manifest.json", "results.json", "report.html"):
        assert ended("killed", 2, name) == -signal.SIGKILL
    assert ended("killed", 2) == 0

    assert (run / "stage-00" / "manifest.json").read_bytes() == first
    assert {"validation.parquet", "results.json", "report.html"} <= {path.name for path in run.iterdir()}
    assert step_outputs(run) == step_outputs(unkilled)
    assert len(step_outputs(run)) == 2 + 2 * len(STEPS)
    ours, theirs = (json.loads((folder / "results.json").read_text())["stages"] for folder in (run, unkilled))
    assert [stage["breakdown"] for stage in ours] == [stage["breakdown"] for stage in theirs]
    assert not (run / "stage-01" / "work").exists()
    assert not list(run.glob("**/*.partial*")), "no half-written files are left"
    client = MlflowClient(f"sqlite:///{tmp_path}/killed/mlflow.db")
    logged = client.search_runs([json.loads((run / "mlflow.json").read_text())["experiment"]])
    assert sorted(entry.data.tags["level"] for entry in logged) == ["curriculum", "stage", "stage", "start"]
    assert {entry.info.status for entry in logged} == {"FINISHED"}


def test_a_run_killed_in_training_goes_on_from_the_trainer_s_checkpoint(trained: FinishedRun):
    """The golden run compares what it ends with."""
    stage = trained.directory / "stage-01"
    assert {"validation", "start", "generate"} <= set(trained.cached)
    assert "resuming from checkpoint-" in (stage / "logs" / "training.log").read_text()
    assert len(json.loads((stage / "manifest.json").read_text())["resumed"]) == 1
    assert not (stage / "work").exists()
