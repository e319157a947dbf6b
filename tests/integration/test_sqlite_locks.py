"""Prefect's server on SQLite: with our configuration transactions wait for each other, and an automation can
be made at any time."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy
from prefect.server.database.configurations import AioSqliteConfiguration
from sqlalchemy.exc import OperationalError

from infra.serving.prefect_server import Sqlite


async def two_writers(configuration: AioSqliteConfiguration) -> list[int]:
    """One transaction reads, another one wants to write, the first one writes; the rows there at the end."""
    engine = await configuration.engine()
    async with engine.begin() as connection:
        await connection.execute(sqlalchemy.text("CREATE TABLE t (x INTEGER)"))
    first, second = await configuration.session(engine), await configuration.session(engine)

    async def insert(number: int) -> None:
        async with configuration.begin_transaction(second):
            await second.execute(sqlalchemy.text(f"INSERT INTO t VALUES ({number})"))

    async with configuration.begin_transaction(first):
        await first.execute(sqlalchemy.text("SELECT x FROM t"))
        other = asyncio.create_task(insert(2))
        await asyncio.sleep(0.3)
        await first.execute(sqlalchemy.text("INSERT INTO t VALUES (1)"))
    await other
    async with engine.connect() as connection:
        rows = (await connection.execute(sqlalchemy.text("SELECT x FROM t"))).scalars().all()
    await first.close()
    await second.close()
    await engine.dispose()
    return list(rows)


def test_a_reader_that_writes_does_not_fail_after_another_writer(tmp_path: Path):
    assert asyncio.run(two_writers(Sqlite(connection_url=f"sqlite+aiosqlite:///{tmp_path}/a.db"))) == [1, 2]


def test_prefects_own_configuration_fails_there(tmp_path: Path):
    """Once it does not, ours can go."""
    own = AioSqliteConfiguration(connection_url=f"sqlite+aiosqlite:///{tmp_path}/a.db")
    with pytest.raises(OperationalError, match="database is locked"):
        asyncio.run(two_writers(own))


def making_an_automation(folder: Path, server: str, seconds: float) -> str:
    script = Path(__file__).with_name("automations_deadlock.py")
    environment = os.environ | {
        "PREFECT_HOME": str(folder),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PYTHONPATH": str(script.parents[2]),
    }
    command = [sys.executable, str(script), server]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_an_automation_is_made_while_others_are_looked_at(tmp_path: Path):
    assert making_an_automation(tmp_path, "fixed", 200) == "201"


@pytest.mark.long
def test_prefects_own_server_ends_in_a_deadlock_there(tmp_path: Path):
    """Once it does not, our change can go."""
    with pytest.raises(subprocess.TimeoutExpired):
        making_an_automation(tmp_path, "as-is", 200)
