"""`envwright serve` before anything is started: ports, the project file, the stale server."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from servers import free_port

from envgen.errors import ConfigError
from infra.preset import PRESETS
from infra.serving import addresses, project_file

ROOT = Path(__file__).parents[2]


def envwright(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "ENVWRIGHT_RUNS": str(folder / "runs"), "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    command = [sys.executable, "-m", "flows.cli", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)


@pytest.fixture
def taken():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_taken_port_is_named_with_its_holder_and_a_command_that_works(taken: int, tmp_path: Path):
    other = free_port()
    done = envwright(tmp_path, "serve", "--prefect-port", str(taken), "--mlflow-port", str(other), "--limit", "3")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"--prefect-port {taken} is taken by pid {os.getpid()}" in done.stderr
    command = done.stderr.rpartition("envwright serve ")[2].split()
    options = dict(zip(command[::2], command[1::2], strict=True))
    assert (options["--mlflow-port"], options["--limit"]) == (str(other), "3")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", int(options["--prefect-port"])))


def test_ports_that_nobody_gave_are_replaced_if_a_person_agrees(taken: int, monkeypatch):
    monkeypatch.setattr(addresses, "PREFECT_PORT", taken)
    monkeypatch.setattr(addresses, "MLFLOW_PORT", free_port())
    asked: list[str] = []
    chosen = addresses.choose_addresses("127.0.0.1", None, None, 1, lambda question: not asked.append(question))
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
        (["--prefect-port", "70000"], "--prefect-port"),
    ],
)
def test_an_address_that_cannot_be_listened_on_is_refused(arguments: list[str], complaint: str, tmp_path: Path):
    done = envwright(tmp_path, "serve", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["serve", "deploy", "notify"])
def test_the_help_of_a_command_shows_its_example(command: str, tmp_path: Path):
    done = envwright(tmp_path, command, "--help")
    assert done.returncode == 0
    assert f"Example: envwright {command}" in done.stdout


def test_only_our_own_project_file_is_replaced_or_removed(tmp_path: Path):
    path = tmp_path / "prefect.toml"
    assert project_file.write("http://127.0.0.1:1/api", path)
    assert project_file.write("http://127.0.0.1:2/api", path)
    assert project_file.named_server(path) == "http://127.0.0.1:2/api"
    project_file.remove("http://127.0.0.1:1/api", path)
    assert path.exists(), "it names the server of another call"
    project_file.remove("http://127.0.0.1:2/api", path)
    assert not path.exists()
    path.write_text('[api]\nurl = "http://127.0.0.1:3/api"\n')
    assert not project_file.write("http://127.0.0.1:2/api", path)
    assert project_file.named_server(path) is None
    project_file.remove("http://127.0.0.1:3/api", path)
    assert "127.0.0.1:3" in path.read_text()


PREPARE = (
    "import logging; logging.basicConfig(); from flows.environment import prepare; prepare(); import prefect.settings as s; print(s.PREFECT_API_URL.value())"
)


@pytest.mark.parametrize("mine", [True, False])
def test_a_project_file_of_a_server_that_is_gone_does_not_stop_a_run(mine: bool, tmp_path: Path):
    gone = f"http://127.0.0.1:{free_port()}/api"
    path = tmp_path / "prefect.toml"
    if mine:
        path.write_text(f'[api]\nurl = "{gone}"\n')
    else:
        project_file.write(gone, path)
    done = subprocess.run(
        [sys.executable, "-c", PREPARE], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60
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
        flow.validate_parameters(deployment.get("parameters", {}) | ({"model": "m"} if function == "benchmark" else {}))
        names.add(f"{flow.name}/{deployment['name']}")
    curricula = {f"curriculum/{path.stem}" for path in PRESETS.glob("*.yaml") if path.stem != "micro"}
    assert names == curricula | {"compare/tiny", "benchmark/any", "janitor/every-two-minutes"}


def test_the_janitor_loads_without_model_libraries():
    code = "import sys; import flows.janitor; print({'torch', 'mlflow', 'transformers', 'trl'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "set()", done.stdout + done.stderr
