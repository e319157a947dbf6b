"""Waits for the end of a command and kills what it started: `python -m infra.serving.end_guard MARK [SERVER
PREFECT_TOML]`.

Its standard input is a pipe that only the command holds open, so that it ends also when that is killed. Of
`envwright serve` it removes the `prefect.toml` that names its server.
"""

import signal
import sys
from pathlib import Path

from infra.serving.marked_processes import kill_marked
from infra.serving.project_file import remove


def main() -> None:
    """Entry point."""
    mark, *prefect_toml = sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    if prefect_toml:
        server, file = prefect_toml
        remove(server, Path(file))
    kill_marked(mark)


if __name__ == "__main__":
    main()
