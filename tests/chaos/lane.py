"""A Prefect server, a worker and a folder of runs that may be killed and started again at will."""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil

sys.path.append(str(Path(__file__).parents[1]))
from support.deployed_curriculum import FINAL, PATIENCE, ROOT, Deployed, command_line, copy_stage_zero, until

__all__ = ["Lane", "command_line", "copy_stage_zero"]


class Victims(NamedTuple):
    """Processes of a run at the moment of the kill."""

    flow: int | None
    children: tuple[int, ...]


class Lane(Deployed):
    """A deployment whose runs are held at a point, killed and resumed."""

    @contextmanager
    def held(self, at: str, run: Path) -> Iterator[Callable[[str], Victims]]:
        """Hold a run at a point; the function given waits until a flow run is there. It goes on when this
        ends."""
        path = run / "stage-01" / ".steps" / f"{at}.lock"
        if at in {"training", "answering", "approval"}:
            yield lambda flow_run: self._reached(at, run, flow_run)
            return
        with open(path, "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            inode = os.stat(path).st_ino
            yield lambda flow_run: self._victims(
                until(lambda: _waiting_for(inode), f"{run.name} comes to {at}", self.problem(flow_run))
            )

    def _reached(self, at: str, run: Path, flow_run: str) -> Victims:
        problem = self.problem(flow_run)
        if at == "approval":
            self.suspended(flow_run)
            return Victims(None, ())
        module = "policy.grpo.training" if at == "training" else "policy.chat.engine_child"
        if at == "training":
            work = run / "stage-01" / "work"
            until(
                lambda: any(work.glob("*/checkpoint-*/trainer_state.json")),
                f"{run.name} has a trainer checkpoint",
                problem,
            )
        else:
            until((run / "stage-01" / "logs" / "engine.log").exists, f"{run.name} starts its engine", problem)
        child = until(lambda: self._child(module), f"a child runs {module}", problem)
        return self._victims(child.ppid())

    def _child(self, module: str) -> psutil.Process | None:
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if module in process.cmdline() and process.environ().get("ENVWRIGHT_RUNS") == str(self.runs):
                    return process
        return None

    def _victims(self, flow: int) -> Victims:
        return Victims(flow, tuple(child.pid for child in psutil.Process(flow).children(recursive=True)))

    def kill(self, what: str, victims: Victims) -> None:
        """Send SIGKILL to a part of the lane, or to all of it at once."""
        assert self.server is not None
        assert self.worker is not None
        parts = {
            "flow": [victims.flow],
            "child": [*victims.children],
            "worker": [self.worker.pid],
            "server": self.server_processes(),
        }
        parts["machine"] = [*parts["flow"], *parts["worker"], *parts["server"], *parts["child"]]
        for pid in filter(None, parts[what]):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process, part in ((self.server, "server"), (self.worker, "worker")):
            if what in {part, "machine"}:
                process.wait(30)

    def settle(self, victims: Victims, flow_run: str) -> None:
        """Wait until the flow process has ended, one way or another, and its children with it; the worker may
        still report the end."""
        pids = [pid for pid in (victims.flow, *victims.children) if pid]
        until(
            lambda: (
                not any(
                    psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
                    for pid in pids
                )
            ),
            "the run's processes end",
        )
        with suppress(TimeoutError):
            until(lambda: self.state(flow_run)["type"] in FINAL | {"PAUSED"}, "a final state", patience=10)

    def resume(self, how: str, flow_run: str, name: str, approval: str) -> None:
        """Go on with a run: `retry` its flow run, start a `new run` of the deployment, or the `command`."""
        if how == "command":
            command_line(self.runs, name, approval, self.environment)
        elif how == "new run":
            self.completed(self.start(name, approval))
        else:
            if self.state(flow_run)["type"] not in FINAL:
                self._reap()
            self.run("prefect", "flow-run", "retry", flow_run)
            self.completed(flow_run)

    def _reap(self) -> None:
        """What the janitor does, without waiting for its two minutes of silence."""
        code = (
            "from datetime import UTC, datetime\nfrom prefect.client.orchestration import get_client\nfrom"
            " infra.serving.reaping import reap\nwith get_client(sync_client=True) as client:\n   "
            " print(reap(client, max_silence=1, max_start=1, resume=0, now=datetime.now(UTC)))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr

    def records(self, run: Path) -> list[str]:
        """What MLflow has of a run that it should not have, or lacks: one run for the curriculum and one for
        each stage."""
        from mlflow import MlflowClient

        client = MlflowClient(f"sqlite:///{self.runs}/mlflow.db")
        experiment = client.get_experiment_by_name("envwright/micro")
        assert experiment is not None
        roots = client.search_runs(
            [experiment.experiment_id], f"attributes.run_name = '{run.name}' AND tags.level = 'curriculum'"
        )
        if len(roots) != 1:
            return [f"{len(roots)} records of the curriculum in MLflow"]
        stages = client.search_runs(
            [experiment.experiment_id],
            f"tags.`mlflow.parentRunId` = '{roots[0].info.run_id}' AND tags.level = 'stage'",
        )
        return [] if len(stages) == 2 else [f"{len(stages)} records of stages in MLflow"]


def _waiting_for(inode: int) -> int | None:
    """The process that waits for a file lock; /proc/locks marks waiting ones with an arrow."""
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if "->" in fields and fields[-3].endswith(f":{inode}"):
            return int(fields[-4])
    return None
