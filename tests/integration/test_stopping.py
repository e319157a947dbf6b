"""A command that is told to end does so at once, in one line, and leaves no process behind."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from support.envwright_command import ENVWRIGHT, environment
from support.prefect_servers import processes_with

pytestmark = pytest.mark.timeout(400)
RUN = ("run", "micro", "--stages", "1", "--set", "epochs=500")
COMPARE = (
    *("compare", "micro", "--engineers", "random,fixed", "--seeds", "0,1", "--stages", "1"),
    *("--jobs", "2", "--name", "both", "--set", "epochs=500", "--set", "stages=1"),
)
BENCHMARK = ("benchmark", "tiny")
MOMENTS = {
    "start": "starting the orchestrator",
    "engine": "validation set: ",
    "training": "stage 0: step ",
    "answers": "instances answered",
    "drawing": "instances take about",
}
"""Moment -> what the command has printed by then."""
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
SECONDS = 10


class Started:
    """A command in a session of its own, as a terminal gives it one."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder, self.log = folder, folder / "out"
        with open(self.log, "w") as out:
            self.process = subprocess.Popen(
                [*ENVWRIGHT, *arguments],
                cwd=folder,
                env=environment(folder),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def reach(self, moment: str) -> None:
        deadline = time.monotonic() + 240
        while MOMENTS[moment] not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)
        time.sleep(0.5)

    def left(self) -> list[str]:
        """What is still there of all that it started, whoever the parent is now."""
        return processes_with(ENVWRIGHT_RUNS=str(self.folder / "runs"))

    def assert_nothing_left(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while left := self.left():
            assert time.monotonic() < deadline, left
            time.sleep(0.1)


def told_to_end(folder: Path, arguments: tuple[str, ...], moment: str, number: signal.Signals) -> str:
    """What the command printed after the signal went to its process group, as a terminal sends it."""
    command = Started(folder, *arguments)
    try:
        command.reach(moment)
        before, began = command.log.read_text(), time.monotonic()
        os.killpg(command.process.pid, number)
        assert command.process.wait(3 * SECONDS) == CODES[number]
        assert time.monotonic() - began < SECONDS
        command.assert_nothing_left(2)
    finally:
        if command.process.poll() is None:
            os.killpg(command.process.pid, signal.SIGKILL)
    return command.log.read_text().removeprefix(before)


def assert_one_line(said: str, arguments: tuple[str, ...]) -> None:
    """But for log lines of the moment before the signal arrived."""
    lines = [line for line in said.splitlines() if line and not line[:2].isdigit()]
    assert len(lines) == 1, said
    assert lines[0].startswith("stopping (")
    assert lines[0].endswith(f"the same command goes on: envwright {' '.join(arguments)}")


@pytest.mark.slow
@pytest.mark.parametrize(("moment", "number"), [("training", signal.SIGINT), ("engine", signal.SIGTERM)])
def test_a_run_that_is_told_to_end_is_gone_at_once(tmp_path: Path, moment: str, number: signal.Signals):
    assert_one_line(told_to_end(tmp_path, RUN, moment, number), RUN)


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "moment", "number"),
    [
        (RUN, "start", signal.SIGINT),
        (RUN, "start", signal.SIGTERM),
        (RUN, "engine", signal.SIGINT),
        (RUN, "training", signal.SIGTERM),
        (RUN, "training", signal.SIGHUP),
        (COMPARE, "training", signal.SIGINT),
        (COMPARE, "engine", signal.SIGTERM),
        (BENCHMARK, "answers", signal.SIGINT),
        (BENCHMARK, "start", signal.SIGHUP),
    ],
)
def test_whatever_it_does_and_whoever_says_so(
    tmp_path: Path, arguments: tuple[str, ...], moment: str, number: signal.Signals
):
    assert_one_line(told_to_end(tmp_path, arguments, moment, number), arguments)


@pytest.mark.long
@pytest.mark.parametrize("moment", ["start", "engine", "training"])
def test_a_killed_run_leaves_no_process(tmp_path: Path, moment: str):
    command = Started(tmp_path, *RUN)
    command.reach(moment)
    command.process.kill()
    assert command.process.wait() == -signal.SIGKILL
    command.assert_nothing_left(SECONDS)


@pytest.mark.long
def test_a_run_under_nohup_outlives_its_terminal(tmp_path: Path):
    handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        command = Started(tmp_path, *RUN)
    finally:
        signal.signal(signal.SIGHUP, handler)
    command.reach("engine")
    os.killpg(command.process.pid, signal.SIGHUP)
    command.reach("training")
    command.process.terminate()
    assert command.process.wait(SECONDS) == 143
    command.assert_nothing_left(2)


@pytest.mark.slow
def test_a_command_that_keeps_nothing_ends_too(tmp_path: Path):
    (tmp_path / "config.yaml").write_text("sizes: {6: {data_ratio: 1, hole_ratio: 0.3, wait_ratio: 0.5}}")
    arguments = ["generate", "config.yaml", "--count", "200000", "--agents", "4", "-o", "o.parquet"]
    command = Started(tmp_path, *arguments)
    command.reach("drawing")
    os.killpg(command.process.pid, signal.SIGINT)
    assert command.process.wait(SECONDS) == 130
    assert command.log.read_text().splitlines()[-1] == "stopping (Ctrl-C)"
    assert not list(tmp_path.glob("*.parquet*"))
    command.assert_nothing_left(2)
