import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.testing.utilities import prefect_test_harness

from envgen.config import EnvConfig, SizeConfig
from envgen.dataset import write_dataset
from envgen.errors import ConfigError, DataError, SamplingError
from envgen.prompts import PromptStyle
from envgen.sampler import sample
from infra.preset import load_preset
from infra.settings import Fanout
from infra.steps import StepRecord
from tasks.data import generate, validation_instances
from tasks.fan_out import fan_out, task_runner
from tasks.run import RunRef

VALIDATION = StepRecord(step="validation", key="of-the-validation-set", outputs={}, seconds=0)
RARE = EnvConfig(sizes={5: SizeConfig(data_ratio=0.5, hole_ratio=0, wait_ratio=1), 6: SizeConfig(data_ratio=0.5, hole_ratio=0.3, wait_ratio=0.25)})
"""Of the open 5x5 boards with two agents 208 need a wait."""


@pytest.fixture(scope="module")
def _server() -> Iterator[None]:
    with prefect_test_harness(server_startup_timeout=120):
        yield


def run_in(folder: Path) -> RunRef:
    run = RunRef(directory=folder, preset=load_preset("micro", {"instances": 400}))
    write_dataset(run.validation, validation_instances(run.preset), PromptStyle.COMPACT, {})
    return run


def generated(folder: Path, fanout: Fanout, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("ENVWRIGHT_FANOUT", fanout.value)
    monkeypatch.setenv("ENVWRIGHT_WORKERS", "2")
    run = run_in(folder)
    record = generate(run, 0, run.preset.default_config, VALIDATION)
    assert list(run.stage(0).rglob("*.parquet")) == [run.stage(0) / "train.parquet"], "no shard is left"
    return record.outputs


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("_server")
@pytest.mark.parametrize("fanout", [Fanout.THREADS, Fanout.PROCESSES, Fanout.RAY])
def test_every_way_to_fan_out_gives_the_same_bits(fanout: Fanout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    if fanout is Fanout.RAY:
        pytest.importorskip("prefect_ray", reason="prefect-ray is not installed (pip install -e '.[ray]')")
    assert generated(tmp_path / "pool", Fanout.POOL, monkeypatch) == generated(tmp_path / "other", fanout, monkeypatch)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("_server")
@pytest.mark.parametrize("fanout", [Fanout.THREADS, Fanout.PROCESSES])
def test_a_class_that_runs_out_of_boards_is_the_same_error(fanout: Fanout, tmp_path: Path):
    run = RunRef(directory=tmp_path, preset=load_preset("micro", {"instances": 416}))
    taken = sample(RARE, 60, seed=1)[0]
    write_dataset(run.validation, taken, PromptStyle.COMPACT, {})
    with pytest.raises(SamplingError, match="distinct boards that need a wait after") as plain:
        sample(RARE, 416, seed=run.preset.stage_seed(0), held_out=frozenset(instance.problem.id for instance in taken))
    with pytest.raises(SamplingError) as fanned:
        fan_out(run, 0, RARE, fanout, 2)
    assert str(fanned.value) == str(plain.value)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("_server")
def test_a_worker_that_does_not_see_the_runs_folder_says_so(tmp_path: Path):
    run = run_in(tmp_path)
    run.validation.unlink()
    with pytest.raises(DataError, match=r"validation\.parquet: not there for this worker; ENVWRIGHT_RUNS"):
        fan_out(run, 0, run.preset.default_config, Fanout.PROCESSES, 2)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("_server")
def test_each_map_size_is_a_task_run_with_its_name(tmp_path: Path):
    run = run_in(tmp_path)

    @flow
    def drawing() -> str:
        from prefect.runtime import flow_run

        fan_out(run, 0, run.preset.default_config, Fanout.THREADS, 2)
        return str(flow_run.id)

    ours = drawing()
    with get_client(sync_client=True) as client:
        names = {found.name for found in client.read_task_runs() if str(found.flow_run_id) == ours}
    assert names == {"draw 3x3", "draw 4x4", "draw 5x5", "draw 6x6"}


def test_a_missing_ray_names_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "prefect_ray", None)
    with pytest.raises(ConfigError, match=r"'ray' needs prefect-ray.*pip install -c constraints\.txt -e '\.\[ray\]'"):
        task_runner(Fanout.RAY, 2)


KILLED = """
import os, signal
from infra.settings import Fanout
from tasks.fan_out import task_runner

if __name__ == "__main__":
    with task_runner(Fanout.PROCESSES, 2) as runner:
        workers = [runner._executor.submit(os.getpid), runner._executor.submit(os.getpid)]
        print(*runner._executor._processes, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
@pytest.mark.timeout(120)
def test_processes_that_are_still_starting_end_with_a_killed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "killed.py").write_text(KILLED)
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parents[2]}:{tmp_path}")
    with subprocess.Popen([sys.executable, "-m", "killed"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        workers = [int(word) for word in process.stdout.readline().split()]
    assert workers
    while any(Path(f"/proc/{worker}/exe").exists() and "zombie" not in Path(f"/proc/{worker}/status").read_text() for worker in workers):
        time.sleep(0.1)
