"""Waits for the end of `envwright serve` and kills what it started: `python -m infra.serving.guard MARK
SERVER PREFECT_TOML`.

Its standard input is a pipe that only `envwright serve` holds open, so that it ends also when that is killed.
"""

import signal
import sys
from pathlib import Path

from infra.serving.marked import kill_marked
from infra.serving.project_file import remove


def main() -> None:
    """Entry point."""
    mark, server, project_file = sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    remove(server, Path(project_file))
    kill_marked(mark)


if __name__ == "__main__":
    main()
