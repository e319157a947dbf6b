"""`envwright serve` before anything is started: ports, the project file, the stale server."""

import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from support.prefect_servers import free_port

from envgen.errors import ConfigError
from flows.serve import _watch
from infra.config.preset import shipped_presets
from infra.serving import addresses, project_file
from infra.serving.auth import CLIENT, SERVER, Login, choose_login
from infra.serving.services import Service, Worker, stop_all

ROOT = Path(__file__).parents[2]


@pytest.fixture
def taken():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_taken_port_is_named_with_its_holder_and_a_command_that_works(envwright, taken: int):
    other = free_port()
    done = envwright("serve", "--prefect-port", taken, "--mlflow-port", other, "--limit", "3")
    assert (done.code, done.out) == (2, "")
    assert f"--prefect-port {taken} is taken by pid {os.getpid()}" in done.err
    command = done.err.rpartition("envwright serve ")[2].split()
    options = dict(zip(command[::2], command[1::2], strict=True))
    assert (options["--mlflow-port"], options["--limit"]) == (str(other), "3")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", int(options["--prefect-port"])))


def test_ports_that_nobody_gave_are_replaced_if_a_person_agrees(taken: int, monkeypatch):
    monkeypatch.setattr(addresses, "PREFECT_PORT", taken)
    monkeypatch.setattr(addresses, "MLFLOW_PORT", free_port())
    asked: list[str] = []
    chosen = addresses.choose_addresses(
        "127.0.0.1", None, None, 1, lambda question: not asked.append(question)
    )
    assert taken < chosen.prefect != chosen.mlflow == addresses.MLFLOW_PORT
    assert f"Use {chosen.prefect} instead?" in asked[0]
    for prefect, confirm in ((None, lambda question: False), (None, None), (taken, lambda question: True)):
        with pytest.raises(ConfigError, match=f"envwright serve --prefect-port {chosen.prefect}"):
            addresses.choose_addresses("127.0.0.1", prefect, None, 1, confirm)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--host", "no.such.host.invalid"], "no.such.host.invalid"),
        (["--host", "192.0.2.1"], "192.0.2.1"),
        (["--prefect-port", "5000"], "--prefect-port and --mlflow-port are both 5000"),
    ],
)
def test_an_address_that_cannot_be_listened_on_is_refused(refused, arguments: list[str], complaint: str):
    refused(["serve", *arguments], complaint)


def test_only_our_own_project_file_is_replaced_or_removed(tmp_path: Path):
    path = tmp_path / "prefect.toml"
    assert project_file.write("http://127.0.0.1:1/api", "a:b", path)
    assert project_file.write("http://127.0.0.1:2/api", "a:b", path)
    assert project_file.named_server(path) == "http://127.0.0.1:2/api"
    project_file.remove("http://127.0.0.1:1/api", path)
    assert path.exists(), "it names the server of another call"
    project_file.remove("http://127.0.0.1:2/api", path)
    assert not path.exists()
    path.write_text('[api]\nurl = "http://127.0.0.1:3/api"\n')
    assert not project_file.write("http://127.0.0.1:2/api", "a:b", path)
    assert project_file.named_server(path) is None
    project_file.remove("http://127.0.0.1:3/api", path)
    assert "127.0.0.1:3" in path.read_text()


def test_only_its_owner_reads_the_project_file_whatever_was_there_before(tmp_path: Path):
    path, any_string = tmp_path / "prefect.toml", 'me:"quoted"\\n#\''
    left_behind = tmp_path / f".prefect.toml.{os.getpid()}.partial"
    for old in (path, left_behind):
        old.write_text("# Written by `envwright serve`")
        old.chmod(0o644)
    assert project_file.write("http://127.0.0.1:1/api", any_string, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert tomllib.loads(path.read_text())["api"] == {
        "url": "http://127.0.0.1:1/api",
        "auth_string": any_string,
    }
    assert sorted(tmp_path.iterdir()) == [path]


def test_each_session_has_an_auth_string_of_its_own_unless_the_user_set_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(SERVER, raising=False)
    monkeypatch.setenv(CLIENT, "")
    first, second = choose_login(), choose_login()
    assert first != second
    assert first.shown == first.auth_string
    monkeypatch.setenv(CLIENT, "me:fixed")
    assert (choose_login().auth_string, choose_login().shown) == ("me:fixed", f"the value of {CLIENT}")
    monkeypatch.setenv(SERVER, "me:other")
    with pytest.raises(ConfigError, match=f"{SERVER} and {CLIENT} differ"):
        choose_login()


@pytest.mark.parametrize("value", ["me:grün", "me:two words", "me:line\n"])
def test_an_auth_string_that_cannot_be_sent_is_refused_and_not_shown(
    envwright, value: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(SERVER, value)
    done = envwright("serve", "--prefect-port", free_port(), "--mlflow-port", free_port())
    assert (done.code, SERVER in done.err, value in done.err) == (2, True, False)


@pytest.mark.parametrize(
    ("host", "named", "not_named"),
    [
        (
            "127.0.0.1",
            {"http://127.0.0.1:4200", "http://localhost:4200", "http://[::1]:4200"},
            {"http://127.0.0.2:4200"},
        ),
        ("::1", {"http://[::1]:4200", "http://localhost:4200"}, set()),
        (
            "0.0.0.0",
            {"http://127.0.0.1:4200", f"http://{socket.gethostname()}:4200"},
            {"http://0.0.0.0:4200"},
        ),
        ("192.0.2.1", {"http://192.0.2.1:4200"}, {"http://localhost:4200"}),
    ],
)
def test_the_ui_is_read_from_the_addresses_of_the_server_only(
    host: str, named: set[str], not_named: set[str]
):
    origins = set(addresses.Addresses(host=host, prefect=4200, mlflow=5000).origins)
    assert named <= origins
    assert not origins & (not_named | {"*"})


PREPARE = (
    "import logging; logging.basicConfig(); from flows.environment import prepare; prepare(); import"
    " prefect.settings as s; print(s.PREFECT_API_URL.value())"
)


@pytest.mark.parametrize("mine", [True, False])
def test_a_project_file_of_a_server_that_is_gone_does_not_stop_a_run(mine: bool, tmp_path: Path):
    gone = f"http://127.0.0.1:{free_port()}/api"
    path = tmp_path / "prefect.toml"
    if mine:
        path.write_text(f'[api]\nurl = "{gone}"\n')
    else:
        project_file.write(gone, "a:b", path)
    done = subprocess.run(
        [sys.executable, "-c", PREPARE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.strip() == (gone if mine else "None"), "what somebody else wrote counts"
    assert path.exists() is mine
    assert (gone in done.stderr) is not mine


def test_every_deployment_of_the_project_names_a_flow_and_parameters_it_has():
    import importlib
    import inspect

    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    names = set()
    for deployment in deployments:
        path, _, function = deployment["entrypoint"].partition(":")
        flow = getattr(importlib.import_module(path.removesuffix(".py").replace("/", ".")), function)
        inspect.signature(flow.fn).bind_partial(**deployment.get("parameters", {}))
        flow.validate_parameters(
            deployment.get("parameters", {}) | ({"model": "m"} if function == "benchmark" else {})
        )
        names.add(f"{flow.name}/{deployment['name']}")
    curricula = {f"curriculum/{name}" for name in shipped_presets()}
    assert names == curricula | {"compare/tiny", "benchmark/any"}


def test_the_janitor_loads_without_model_libraries():
    code = (
        "import sys; import infra.serving.janitor; print({'torch', 'mlflow', 'transformers', 'trl'} &"
        " set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "set()", done.stdout + done.stderr


@pytest.fixture
def asked() -> Iterator[tuple[int, list[tuple[str, dict]]]]:
    """The port of a server that has nothing, and what it was asked: path and body."""
    found: list[tuple[str, dict]] = []

    class Nothing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.append((self.path, json.loads(body)))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"[]")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Nothing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port, found
        server.shutdown()


def test_only_the_runs_of_a_worker_that_ended_may_have_lost_it(asked, tmp_path: Path):
    """The worker of the other pool may have taken a run that has no process yet."""
    port, found = asked
    given = ([], {}, tmp_path / "log")  # a module that prints a line and ends
    watched = [
        Worker("worker", "platform", *given, pool="local"),
        Service("janitor", "platform", *given),
    ]
    for service in watched:
        service.start()
    first, deadline = time.monotonic(), time.monotonic() + 60

    def stopped(seconds: float) -> bool:
        time.sleep(min(seconds, 0.1))
        assert time.monotonic() < deadline
        return all(service.started > first for service in watched)

    where = addresses.Addresses(host="127.0.0.1", prefect=port, mlflow=port)
    _watch(where, Login("a:b", None), [], watched, lambda line: None, stopped)
    stop_all(watched)
    assert [body["work_pools"] for path, body in found if path == "/api/flow_runs/filter"] == [
        {"name": {"any_": ["local"]}}
    ]
