"""What `envwright serve` refuses before it starts anything, and the deployments that it makes."""

import asyncio
import socket
from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest

from envgen.errors import ConfigError
from envgen.yaml_files import read_yaml
from flows.commands.serve_cli import mlflow_store, prefect_database
from infra.config.preset import shipped_presets
from infra.serving.access import CLIENT, SERVER, choose_login

PROJECT = Path(__file__).parents[2] / "prefect.yaml"


def test_a_taken_port_or_an_address_of_another_machine_is_refused(refused):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = str(listener.getsockname()[1])
        refused(["serve", "--prefect-port", port], f"port {port}")
    refused(["serve", "--host", "192.0.2.1"], "--host 192.0.2.1")


def test_each_session_has_a_login_of_its_own_unless_the_user_set_one(monkeypatch: pytest.MonkeyPatch):
    for name in (SERVER, CLIENT):
        monkeypatch.delenv(name, raising=False)
    assert choose_login() != choose_login()
    monkeypatch.setenv(CLIENT, "me:fixed")
    assert choose_login() == "me:fixed"
    monkeypatch.setenv(SERVER, "me:other")
    with pytest.raises(ConfigError, match=SERVER):
        choose_login()


@pytest.mark.parametrize("value", ["me:grün", "me:two words", "me:line\n", "nocolon", ":empty"])
def test_a_login_that_cannot_be_sent_is_refused_and_not_shown(value: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(CLIENT, raising=False)
    monkeypatch.setenv(SERVER, value)
    with pytest.raises(ConfigError) as refusal:
        choose_login()
    assert value not in str(refusal.value)


def test_every_shipped_preset_has_a_deployment_with_parameters_that_its_flow_has():
    names = set()
    for deployment in read_yaml(PROJECT)["deployments"]:
        module, _, function = deployment["entrypoint"].rpartition(".")
        flow = getattr(import_module(module), function)
        signature(flow.fn).bind_partial(**deployment.get("parameters", {}))
        names.add(f"{flow.name}/{deployment['name']}")
    assert {f"curriculum/{name}" for name in shipped_presets()} <= names


def test_prefect_asks_its_database_through_one_connection(tmp_path: Path):
    home = tmp_path / "runs of 100% or more?"

    async def connections() -> int:
        from prefect.server.database.configurations import AioSqliteConfiguration

        engine = await AioSqliteConfiguration(prefect_database(home)).engine()
        async with engine.connect() as connection:
            await connection.exec_driver_sql("create table a (b int)")
        pool = engine.pool
        await engine.dispose()
        return pool.size()

    assert asyncio.run(connections()) == 1
    assert (home / "prefect.db").stat().st_size > 0


def test_the_variables_of_an_earlier_session_name_no_other_mlflow(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    assert mlflow_store("http://127.0.0.1:5001") == "http://127.0.0.1:5000"
    assert mlflow_store("http://127.0.0.1:5000").startswith("sqlite:///")
