"""Who may work on a run directory."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envgen.errors import RunDirectoryError
from infra import lease
from infra.lease import exclusive, read_lease

HOLD = """
import sys
from pathlib import Path
from infra.lease import exclusive
with exclusive(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def lease_file(directory: Path) -> Path:
    return directory.parent / ".locks" / f"{directory.name}.lease.json"


def foreign(directory: Path, seconds_ago: float) -> None:
    """A lease that a process of another machine renewed some time ago."""
    when = time.time() - seconds_ago
    found = {"token": "theirs", "host": "elsewhere", "pid": 7, "user": "ada", "taken_at": when - 60, "renewed_at": when}
    lease_file(directory).parent.mkdir(parents=True, exist_ok=True)
    lease_file(directory).write_text(json.dumps(found))


def test_the_refusal_names_the_holder_and_the_age_of_its_lease(tmp_path: Path):
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "mine")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RunDirectoryError, match=rf"process {holder.pid} on {socket.gethostname()}.*last seen \d+ s ago"), exclusive(tmp_path / "mine"):
            pass
        holder.kill()
    assert read_lease(lease_file(tmp_path / "mine")), "a killed holder leaves its lease behind"
    with exclusive(tmp_path / "mine"):
        found = read_lease(lease_file(tmp_path / "mine"))
        assert found is not None
        assert found.pid == os.getpid()
    assert not lease_file(tmp_path / "mine").exists()


def test_a_fresh_lease_of_another_machine_is_respected(tmp_path: Path):
    foreign(tmp_path / "mine", 10)
    with pytest.raises(RunDirectoryError, match=r"process 7 on elsewhere of ada.*can be taken in 1[01]\d s"), exclusive(tmp_path / "mine"):
        pass
    assert json.loads(lease_file(tmp_path / "mine").read_text())["token"] == "theirs"


def test_a_stale_lease_of_another_machine_is_taken(tmp_path: Path):
    foreign(tmp_path / "mine", lease.STALE_SECONDS + 5)
    with exclusive(tmp_path / "mine"):
        found = read_lease(lease_file(tmp_path / "mine"))
        assert found is not None
        assert found.host == socket.gethostname()


def test_a_damaged_lease_keeps_nobody_out(tmp_path: Path):
    lease_file(tmp_path / "mine").parent.mkdir(parents=True)
    lease_file(tmp_path / "mine").write_text('{"token"')
    with exclusive(tmp_path / "mine"):
        assert read_lease(lease_file(tmp_path / "mine"))


def test_a_lease_is_renewed_while_it_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.05)
    with exclusive(tmp_path / "mine"):
        first = read_lease(lease_file(tmp_path / "mine"))
        assert first is not None
        deadline = time.monotonic() + 20
        while (now := read_lease(lease_file(tmp_path / "mine"))) is None or now.renewed_at == first.renewed_at:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert (now.token, now.taken_at) == (first.token, first.taken_at)


def test_a_process_whose_lease_was_taken_is_interrupted_and_leaves_the_new_one_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.05)
    with pytest.raises(KeyboardInterrupt), exclusive(tmp_path / "mine"):
        foreign(tmp_path / "mine", 0)
        time.sleep(20)
    assert json.loads(lease_file(tmp_path / "mine").read_text())["token"] == "theirs"
