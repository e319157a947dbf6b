"""Curricula of a comparison as runs on a Prefect server; the test tells the server what workers would."""

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextvars import copy_context
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings
from support.comparisons import comparison
from support.prefect_servers import ask, told, wait_until

from envgen.errors import ChildError, RunDirectoryError
from flows.compare import Curricula
from flows.parameters import Membership
from infra.comparison.spec import ComparisonSpec
from infra.config.preset import load_preset
from infra.runs.run import Run
from infra.runs.run_log import kept_log
from infra.serving.pools import pool_for
from tasks.run import log

pytestmark = [pytest.mark.slow]
PRESET, POOL = "watched", "nobody"


@pytest.fixture
def runs(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Curricula]:
    """Those of a comparison whose preset has a deployment, on a work pool that nobody works on."""
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path))
    monkeypatch.setattr("flows.compare.LOOK", 0.1)
    flow = ask(f"{server}/flows/", {"name": "curriculum"})["id"]
    if not any(pool["name"] == POOL for pool in ask(f"{server}/work_pools/filter")):
        ask(f"{server}/work_pools/", {"name": POOL, "type": "process"})
    ask(f"{server}/deployments/", {"name": PRESET, "flow_id": flow, "work_pool_name": POOL})
    with temporary_settings({PREFECT_API_URL: server}):
        yield Curricula(tmp_path / tmp_path.name, POOL, None, {})


@pytest.fixture
def spec() -> ComparisonSpec:
    spec = comparison("fixed", "random")
    presets = {label: preset.model_copy(update={"name": PRESET}) for label, preset in spec.presets.items()}
    return spec.model_copy(update={"presets": presets})


def tagged(server: str, runs: Curricula) -> list[dict]:
    tags = {"all_": [f"{runs.directory.name}/fixed-s0"]}
    return ask(f"{server}/flow_runs/filter", {"flow_runs": {"tags": tags}})


def waiting(runs: Curricula, spec: ComparisonSpec) -> Future[None]:
    """A call of `Curricula.run` in a thread, with the settings of this test, as a comparison makes it."""
    child, ended = spec.children[0], Future[None]()

    def run() -> None:
        try:
            ended.set_result(runs.run(child))
        except BaseException as error:
            ended.set_exception(error)

    threading.Thread(target=copy_context().run, args=(run,), daemon=True).start()
    return ended


def test_a_pool_without_workers_is_said_once_and_logs_repeated(server, runs, spec, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "envwright")
    assert pool_for(PRESET) == POOL
    done = threading.Event()
    monkeypatch.setattr("flows.compare.is_finished", lambda directory, preset: done.is_set())
    ended = waiting(runs, spec)
    assert "prefect worker start --pool nobody" in caplog.text
    wait_until(lambda: tagged(server, runs))
    [run] = tagged(server, runs)
    given = load_preset(run["parameters"]["preset"])
    assert given == spec.children[0].preset
    assert list(given.validation.grid) == list(spec.base.validation.grid), "their order decides the boards"
    member = run["parameters"]["comparison"]
    assert member == {"folder": runs.directory.name, "root": "shared-s0"}
    assert Membership.model_validate(member).directory("fixed-s0").parent == runs.directory
    assert run["name"] == f"{runs.directory.name}/fixed-s0"
    assert f"/runs/flow-run/{run['id']}" in caplog.text, "an address that a browser opens"
    told(server, run["id"], "RUNNING")
    with kept_log(Run(directory=runs.directory / "fixed-s0")):
        log.info("stage 0: step 3 of 9")
    wait_until(lambda: "fixed-s0: stage 0: step 3 of 9" in caplog.text)
    done.set()
    told(server, run["id"], "COMPLETED")
    assert ended.exception(60) is None
    assert caplog.text.count("has no worker online") == 1
    assert len(tagged(server, runs)) == 1


def test_a_run_that_is_under_way_is_awaited_and_one_that_failed_is_started_anew(server, runs, spec, caplog):
    caplog.set_level(logging.INFO, "envwright")
    first = waiting(runs, spec)
    wait_until(lambda: len(tagged(server, runs)) == 1)
    runs.stop()
    assert isinstance(first.exception(60), ChildError)
    second = waiting(Curricula(runs.directory, POOL, None, {}), spec)
    [run] = tagged(server, runs)
    told(server, run["id"], "RUNNING")
    wait_until(lambda: caplog.text.count(f"a run of curriculum/{PRESET}") == 2)
    told(server, run["id"], "FAILED")
    assert "is Failed" in str(second.exception(60))
    assert len(tagged(server, runs)) == 1, "the same run was awaited"
    third = waiting(Curricula(runs.directory, POOL, None, {}), spec)
    wait_until(lambda: len(tagged(server, runs)) == 2)
    [new] = [found for found in tagged(server, runs) if found["id"] != run["id"]]
    told(server, new["id"], "COMPLETED")
    error = third.exception(60)
    assert isinstance(error, RunDirectoryError)
    assert "ENVWRIGHT_RUNS" in str(error), "the error names the setting that differs on the worker"


def test_without_a_deployment_of_the_preset_the_curricula_run_here(server: str, runs: Curricula, caplog):
    assert pool_for("unheard-of") is None
    assert "no deployment curriculum/unheard-of" in caplog.text
