"""Who may work on a run directory."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from envgen.errors import RunDirectoryError
from infra.runs import lease
from infra.runs.lease import exclusive, read_lease, this_host

HOLD = """
import sys
from pathlib import Path
from infra.runs.lease import exclusive
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
        with pytest.raises(RunDirectoryError, match=rf"process {holder.pid} on {this_host()}.*last seen \d+ s ago"), exclusive(tmp_path / "mine"):
            pass
        holder.kill()
    assert read_lease(lease_file(tmp_path / "mine")), "a killed holder leaves its lease behind"
    with exclusive(tmp_path / "mine"):
        found = read_lease(lease_file(tmp_path / "mine"))
        assert found is not None
        assert found.pid == os.getpid()
    assert not lease_file(tmp_path / "mine").exists()


def test_the_same_directory_is_guarded_whatever_it_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    monkeypatch.chdir(tmp_path / "mine")
    for other in (Path(), tmp_path / "link"):
        with exclusive(tmp_path / "mine"), pytest.raises(RunDirectoryError, match="another process is working"), exclusive(other):
            pass


def test_a_lease_that_another_machine_renews_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lease, "LOOK_SECONDS", 0.05)
    foreign(tmp_path / "mine", 10)
    threading.Timer(0.3, foreign, (tmp_path / "mine", 0)).start()
    with pytest.raises(RunDirectoryError, match=r"process 7 on elsewhere of ada.*last seen 0 s ago"), exclusive(tmp_path / "mine"):
        pass
    assert json.loads(lease_file(tmp_path / "mine").read_text())["token"] == "theirs"


def test_a_fresh_lease_of_another_machine_is_taken_once_it_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lease, "LOOK_SECONDS", 0.05)
    foreign(tmp_path / "mine", lease.STALE_SECONDS - 0.5)
    with exclusive(tmp_path / "mine"):
        assert read_lease(lease_file(tmp_path / "mine")) != "theirs"


def test_a_stale_lease_of_another_machine_is_taken(tmp_path: Path):
    foreign(tmp_path / "mine", lease.STALE_SECONDS + 5)
    with exclusive(tmp_path / "mine"):
        found = read_lease(lease_file(tmp_path / "mine"))
        assert found is not None
        assert found.host == this_host()


@pytest.mark.parametrize("ahead", [3600, 1e18])
def test_a_lease_that_is_dated_in_the_future_is_waited_for_no_longer_than_another(ahead: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setattr(lease, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(lease, "STALE_SECONDS", 0.5)
    foreign(tmp_path / "mine", -ahead)
    began = time.monotonic()
    with caplog.at_level("WARNING"), exclusive(tmp_path / "mine"):
        assert 0.4 < time.monotonic() - began < 5
    assert re.search(r"seen at a time \d+ s ahead of the clock of this machine", caplog.text)


@pytest.mark.parametrize("name", ["mine.lease.json", "mine.lock"])
def test_a_folder_in_the_place_of_a_lease_is_named(name: str, tmp_path: Path):
    (tmp_path / ".locks" / name / "inside").mkdir(parents=True)
    with pytest.raises(RunDirectoryError, match=rf"{name}: is no file.*move it away"), exclusive(tmp_path / "mine"):
        pass


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


def test_a_process_whose_lease_was_taken_ends_though_it_runs_in_the_background_and_leaves_the_new_one_alone(tmp_path: Path):
    code = HOLD.replace("from infra.runs.lease import exclusive", "from infra.runs import lease; exclusive = lease.exclusive; lease.RENEW_SECONDS = 0.05")
    in_background = ["sh", "-c", '"$@" < /dev/zero & wait $!', "sh", sys.executable, "-c", code.replace("sys.stdin.read()", "import time; time.sleep(60)")]
    with subprocess.Popen([*in_background, str(tmp_path / "mine")], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        foreign(tmp_path / "mine", 0)
        assert holder.wait(30) == 128 + signal.SIGTERM
    assert json.loads(lease_file(tmp_path / "mine").read_text())["token"] == "theirs"
