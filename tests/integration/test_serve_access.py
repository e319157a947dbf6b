"""Who may use the servers of `envwright serve`: not a web page in the user's browser, and not another user of
the machine."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import urllib3
from support.envwright_serve import Served, serving, wait_until
from support.prefect_servers import ask, processes_with
from urllib3.util import make_headers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
EVIL = "http://evil.example"
JSON = {"Content-Type": "application/json"}


def status(
    url: str, method: str = "POST", body: dict | None = None, **headers: str
) -> tuple[int, str | None]:
    """The status of an answer, and which origin a browser lets read it."""
    answer = urllib3.request(
        method,
        url,
        body=json.dumps(body or {}),
        headers={name.replace("_", "-"): value for name, value in headers.items()},
        timeout=60,
    )
    return answer.status, answer.headers.get("Access-Control-Allow-Origin")


def preflight(url: str, origin: str) -> tuple[int, str | None]:
    """What a browser is told that asks whether a page of an origin may send JSON and log in."""
    asked = {
        "Access_Control_Request_Method": "POST",
        "Access_Control_Request_Headers": "authorization,content-type",
    }
    return status(url, "OPTIONS", Origin=origin, **asked)


def test_only_a_caller_with_the_auth_string_makes_prefect_run_a_command(tmp_path: Path):
    with serving(tmp_path) as served:
        prefect, mark = f"http://127.0.0.1:{served.prefect}", tmp_path / "F"
        deployment = next(one for one in ask(f"{served.api}/deployments/filter") if one["name"] == "micro")
        listing = f"{prefect}/api/deployments/filter"
        running = f"{prefect}/api/deployments/{deployment['id']}/create_flow_run"
        command = {"job_variables": {"command": f"touch {mark}"}, "state": {"type": "SCHEDULED"}}
        login = make_headers(basic_auth=served.auth_string)["authorization"]
        wrong = make_headers(basic_auth="envwright:wrong")["authorization"]
        for url in (listing, running):
            assert preflight(url, EVIL) == (400, None)
            assert status(url, body=command, Origin=EVIL, **JSON) == (401, None)
            # A browser sends a body without a type to another origin without asking first.
            assert status(url, body=command, Origin=EVIL) == (401, None)
            assert status(url, body=command, Host="evil.example", Authorization=login, **JSON)[0] == 400
            assert (
                status(
                    url,
                    body=command,
                    Host=f"evil.example:{served.prefect}",
                    Origin=EVIL,
                    Authorization=login,
                    **JSON,
                )[0]
                == 400
            )
            assert status(url, body=command, **JSON)[0] == 401
            assert status(url, body=command, Authorization=wrong, **JSON)[0] == 401
        known = {
            one["id"]
            for one in ask(
                f"{served.api}/flow_runs/filter", {"deployments": {"id": {"any_": [deployment["id"]]}}}
            )
        }
        assert status(running, body=command, Authorization=login, **JSON)[0] == 201
        wait_until(mark.exists, 120)
        after = {
            one["id"]
            for one in ask(
                f"{served.api}/flow_runs/filter", {"deployments": {"id": {"any_": [deployment["id"]]}}}
            )
        }
        assert len(after - known) == 1, "the refused requests made no run"
        for origin in (prefect, prefect.replace("127.0.0.1", "localhost")):
            assert preflight(listing, origin) == (200, origin), "the page that the user opened"
        refused_by_mlflow(f"http://127.0.0.1:{served.mlflow}/api/2.0/mlflow/experiments/create")
        nobody_else_reads_it(served)
        without_login_a_command_says_what_to_do(served, tmp_path / "elsewhere")


def without_login_a_command_says_what_to_do(served: Served, folder: Path) -> None:
    folder.mkdir()
    places = {
        "PREFECT_API_URL": f"http://127.0.0.1:{served.prefect}/api",
        "ENVWRIGHT_RUNS": "runs",
        "PREFECT_HOME": str(folder / "prefect"),
    }
    for command in (["deploy"], ["run", "micro"]):
        call = [sys.executable, "-m", "flows.cli", *command]
        done = subprocess.run(
            call,
            cwd=folder,
            env={**served.environment, **places},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 2, done.stdout + done.stderr
        assert "asks for an auth string" in done.stderr
        assert "export PREFECT_API_AUTH_STRING" in done.stderr


def refused_by_mlflow(url: str) -> None:
    assert preflight(url, EVIL)[1] is None
    assert status(url, body={"name": "x"}, Origin=EVIL, **JSON) == (403, None)
    assert status(url, body={"name": "x"}, Host="evil.example", **JSON)[0] == 403
    assert status(url, body={"name": "x"}, **JSON)[0] == 200


def nobody_else_reads_it(served: Served) -> None:
    assert stat.S_IMODE((served.folder / "prefect.toml").stat().st_mode) == 0o600
    assert not [
        line
        for line in processes_with(ENVWRIGHT_RUNS=str(served.folder / "runs"))
        if served.auth_string in line
    ], "command lines are public"
    logs = "".join(path.read_text() for path in (served.folder / "runs" / ".serve").glob("*.log"))
    assert served.auth_string not in logs
    assert f"log in with {served.auth_string}\n" in served.out.read_text()


def test_an_auth_string_of_the_users_own_is_taken_and_not_repeated(tmp_path: Path):
    with serving(tmp_path, PREFECT_API_AUTH_STRING="me:fixed") as served:
        assert served.auth_string == "me:fixed"
        assert ask(f"{served.api}/deployments/filter")
        assert "log in with the value of PREFECT_API_AUTH_STRING" in served.out.read_text()
        assert "me:fixed" not in served.out.read_text()
