"""`envwright serve`: who may use its servers, a run on its worker, and its end."""

import signal
import stat

import pytest
import urllib3
from mlflow import MlflowClient
from support.envwright_serve import Served, serving
from support.prefect_servers import processes_with, wait_until
from urllib3.util import make_headers

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]
ASSISTANT = "/ajax-api/3.0/mlflow/assistant/config"
EVIL = "evil.example"


def status(url: str, login: str = "", method: str = "POST", **headers: str) -> int:
    """The status of an answer to a request with a small JSON body."""
    sent = {**headers, **(make_headers(basic_auth=login) if login else {})}
    body = {} if method == "POST" else {"providers": {}}
    return urllib3.request(method, url, json=body, headers=sent, timeout=60).status


def refused_without_login_or_from_elsewhere(served: Served) -> None:
    prefect, mlflow = (f"http://127.0.0.1:{port}" for port in (served.prefect, served.mlflow))
    login = served.auth_string
    for server, path in (
        (prefect, "/api/deployments/filter"),
        (mlflow, "/api/2.0/mlflow/registered-models/search"),
    ):
        read = "GET" if server == mlflow else "POST"
        assert status(server + path, method=read) == 401
        assert status(server + path, "envwright:wrong", method=read) == 401
        assert status(server + path, login, method=read) == 200
        assert status(server + path, login, method=read, Origin=server) == 200
        assert status(server + path, login, method=read, Origin=f"http://{EVIL}") == 403
        assert status(server + path, login, method=read, Host=EVIL) == 400
    for address in (ASSISTANT, ASSISTANT.replace("assistant", "%61ssistant")):
        assert status(mlflow + address, method="PUT") in {401, 403}
        assert status(mlflow + address, login, method="PUT") == 403


def nobody_else_reads_the_login(served: Served) -> None:
    folder = served.folder / "runs" / ".serve"
    assert stat.S_IMODE((folder / "env").stat().st_mode) == 0o600
    secret = served.auth_string
    runs = str(served.folder / "runs")
    assert not [line for line in processes_with(ENVWRIGHT_RUNS=runs) if secret in line]
    assert not [log for log in folder.glob("*.log") if secret in log.read_text()]


def test_a_run_on_the_worker_is_recorded_behind_the_login_and_ctrl_c_leaves_nothing(tmp_path, monkeypatch):
    with serving(tmp_path) as served:
        refused_without_login_or_from_elsewhere(served)
        nobody_else_reads_the_login(served)
        served.start("short", '{"stages": 1}')
        served.reach("short", "Completed")
        for name, value in served.exports.items():
            monkeypatch.setenv(name, value)
        client = MlflowClient(served.exports["MLFLOW_TRACKING_URI"])
        experiment = client.get_experiment_by_name("envwright/micro")
        runs = client.search_runs([experiment.experiment_id])
        assert {run.info.status for run in runs} == {"FINISHED"}
        assert len(client.search_traces(locations=[experiment.experiment_id])) == 1
        served.start("cut-off")
        wait_until((tmp_path / "runs" / "cut-off" / "stage-00").exists, 300)
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(10) == 130, served.out.read_text()
        wait_until(lambda: not served.left(), 2)
        assert not (tmp_path / "runs" / ".serve" / "env").exists()
    with serving(tmp_path) as served:
        assert served.flow_run("cut-off")["state"]["name"] == "Crashed"
        done = served.run("prefect", "flow-run", "retry", served.flow_run("cut-off")["id"])
        assert done.returncode == 0, done.stdout + done.stderr
        wait_until(lambda: served.flow_run("cut-off")["state"]["name"] == "Completed", 600)
