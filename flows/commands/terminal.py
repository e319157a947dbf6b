"""Exit codes, and the log as it is shown in a terminal."""

import logging
import os
import time

from envgen.terminal import console, printable

BAD_INPUT, FAILED, WAITING = 2, 1, 3
"""Exit codes. WAITING: the run is sound, and goes on when a person has decided on a proposal."""


class ConsoleHandler(logging.Handler):
    """Log records as lines of the console, with the time of day."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record."""
        style = "yellow" if record.levelno >= logging.WARNING else None
        stamp = time.strftime("%H:%M:%S", time.localtime(record.created))
        # A model's words are hostile text: no control characters reach the terminal.
        message = printable(record.getMessage())
        console.print(f"{stamp}  {message}", style=style, soft_wrap=True, markup=False, highlight=False)


def show_log() -> None:
    """Show envwright's own log on the screen; Prefect's goes to its server. Call before anything imports
    Prefect."""
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    logger = logging.getLogger("envwright")
    logger.setLevel(logging.INFO)
    logger.addHandler(ConsoleHandler())
