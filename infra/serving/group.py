"""Long-running processes that end together with the one that starts them, however that ends."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

from envgen.errors import ChildError
from envgen.processes import ended

_GUARD = "trap '' INT TERM HUP; cat >/dev/null; kill -TERM 0; sleep 4; kill -KILL 0"
"""Waits until its standard input is closed, by `stop` or because this process is gone, and ends the group."""
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class ProcessGroup:
    """One process group; each process appends its output to `NAME.log` in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._guard = subprocess.Popen(["sh", "-c", _GUARD], stdin=subprocess.PIPE, process_group=0)
        self._processes: dict[Path, subprocess.Popen[bytes]] = {}

    def start(self, name: str, module: str, *arguments: str) -> None:
        """Start `python -m module arguments`."""
        command, path = [sys.executable, "-m", module, *arguments], self.folder / f"{name}.log"
        with open(path, "ab") as log:
            self._processes[path] = subprocess.Popen(
                command, process_group=self._guard.pid, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def wait_for(self, url: str) -> None:
        """Wait until a server of the group answers at `url`, as long as all processes live."""
        while True:
            self.check()
            with suppress(OSError), _direct.open(url, timeout=5):
                return
            time.sleep(0.3)

    def check(self) -> None:
        """ChildError with the end of its log if a process has ended."""
        for log, process in self._processes.items():
            if (code := process.poll()) is not None:
                tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
                raise ChildError(f"{log.stem} {ended(code)}; last lines of {log}:\n{tail}")

    def stop(self) -> None:
        """End all processes, by force after four seconds."""
        self._guard.stdin.close()  # type: ignore[union-attr]
        deadline = time.monotonic() + 4
        with suppress(subprocess.TimeoutExpired):
            for process in self._processes.values():
                process.wait(max(0.0, deadline - time.monotonic()))
        os.killpg(self._guard.pid, signal.SIGKILL)  # nobody reaped the guard, so the group exists
