import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.testing.utilities import prefect_test_harness

from envgen.config import EnvConfig
from envgen.dataset import read_dataset
from envgen.errors import ConfigError, DataError, SamplingError
from envgen.family import Source
from envgen.mapf.problem import Instance
from envgen.mapf.prompts import PromptStyle
from envgen.sampling import sample
from infra.config.preset import load_preset
from infra.runs.data import held_out, validation_instances
from infra.runs.run import RunRef
from infra.runs.stage import Stage
from infra.runs.steps import StepRecord
from tasks.data import generate
from tasks.draw_on_ray import StratumRequest, draw_stratum, ray_runner

VALIDATION = StepRecord(step="validation", key="of-the-validation-set", outputs={}, seconds=0)
RARE = EnvConfig.model_validate(
    {
        "sizes": {
            "5": {"data_ratio": 0.5, "hole_ratio": 0, "wait_ratio": 1},
            "6": {"data_ratio": 0.5, "hole_ratio": 0.3, "wait_ratio": 0.25},
        }
    }
)
"""Of the open 5x5 boards with two agents 208 need a wait."""


@pytest.fixture(scope="module")
def _server() -> Iterator[None]:
    with prefect_test_harness(server_startup_timeout=120):
        yield


def run_in(folder: Path) -> RunRef:
    run = RunRef(directory=folder, preset=load_preset("micro", {"instances": 400}))
    run.write(RunRef.validation, validation_instances(run.preset), PromptStyle.COMPACT, {})
    return run


def requests(run: RunRef, config: EnvConfig, count: int) -> list[StratumRequest]:
    return [
        StratumRequest(
            family=run.preset.family,
            stratum=name,
            knobs=config.strata[name].knobs,
            count=wanted,
            source=Source(run.preset.stage_seed(0)),
            validation=run.path(RunRef.validation),
            style=PromptStyle.COMPACT,
            shard=run.directory / f"{name}.parquet",
        )
        for name, wanted in config.counts(count).items()
    ]


def drawn_by_stratum(run: RunRef, config: EnvConfig, count: int) -> list[Instance]:
    return [
        instance
        for request in requests(run, config, count)
        for instance in read_dataset(draw_stratum.fn(request).path)
    ]


def test_the_strata_drawn_one_by_one_are_what_one_process_draws(tmp_path: Path):
    run = run_in(tmp_path)
    at_once, _ = sample(
        run.preset.task, run.preset.default_config, 400, Source(run.preset.stage_seed(0)), held_out(run)
    )
    assert drawn_by_stratum(run, run.preset.default_config, 400) == at_once


def test_a_class_that_runs_out_of_boards_is_the_same_error(tmp_path: Path):
    run = RunRef(directory=tmp_path, preset=load_preset("micro", {"instances": 416}))
    taken = sample(run.preset.task, RARE, 60, Source(1))[0]
    run.write(RunRef.validation, taken, PromptStyle.COMPACT, {})
    with pytest.raises(SamplingError, match="distinct boards that need a wait after") as plain:
        sample(
            run.preset.task,
            RARE,
            416,
            Source(run.preset.stage_seed(0)),
            frozenset(instance.id for instance in taken),
        )
    with pytest.raises(SamplingError) as by_stratum:
        drawn_by_stratum(run, RARE, 416)
    assert str(by_stratum.value) == str(plain.value)


def test_a_worker_that_does_not_see_the_runs_folder_says_so(tmp_path: Path):
    run = run_in(tmp_path)
    run.path(RunRef.validation).unlink()
    with pytest.raises(DataError, match=r"validation\.parquet: not there for this worker; ENVWRIGHT_RUNS"):
        drawn_by_stratum(run, run.preset.default_config, 400)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("_server")
def test_ray_gives_the_same_bits_in_a_named_task_run_per_stratum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("prefect_ray", reason="prefect-ray is not installed (pip install -e '.[ray]')")
    monkeypatch.setenv("ENVWRIGHT_WORKERS", "2")

    @flow
    def drawing(run: RunRef) -> tuple[str, dict[str, str]]:
        from prefect.runtime import flow_run

        return str(flow_run.id), generate.fn(run, 0, run.preset.default_config, VALIDATION).outputs

    monkeypatch.setenv("ENVWRIGHT_RAY", "1")
    on_ray = run_in(tmp_path / "ray")
    ours, outputs = drawing(on_ray)
    monkeypatch.delenv("ENVWRIGHT_RAY")
    assert outputs == drawing(run_in(tmp_path / "here"))[1]
    assert list(on_ray.stage(0).directory.rglob("*.parquet")) == [on_ray.stage(0).path(Stage.train)], (
        "no shard is left"
    )
    with get_client(sync_client=True) as client:
        names = {found.name for found in client.read_task_runs() if str(found.flow_run_id) == ours}
    assert names == {"draw 3", "draw 4", "draw 5", "draw 6"}


def test_a_missing_ray_names_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "prefect_ray", None)
    with pytest.raises(
        ConfigError, match=r"prefect-ray is not installed.*pip install -c constraints\.txt -e '\.\[ray\]'"
    ):
        ray_runner(2)
