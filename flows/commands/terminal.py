"""Exit codes, and the log as it is shown in a terminal."""

import logging
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from envgen.terminal import console, printable, say
from flows.environment import prepare, start_server

BAD_INPUT, FAILED, WAITING = 2, 1, 3
"""Exit codes. WAITING: the run is sound, and goes on when a person has decided on a proposal."""
UNBOUNDED = 10_000
"""More characters than any table needs."""


def _only_json(context: typer.Context, wanted: bool) -> bool:
    if wanted:
        console.stderr = True
        context.call_on_close(partial(setattr, console, "stderr", False))
    return wanted


RUN = Annotated[str, typer.Argument(help="Name of a run, or its path with a / in it.")]
JSON = Annotated[
    bool,
    typer.Option(
        "--json", help="Print the result as JSON; all else goes to standard error.", callback=_only_json
    ),
]
"""With it `console` is standard error, so that standard output holds what `print_json` prints alone."""


def print_json(value: Any) -> None:
    """Print models, or a list of them, as JSON on standard output."""
    typer.echo(TypeAdapter(Any).dump_json(value, indent=1))


def plain_table(*columns: str) -> Table:
    """A table with these headings and few lines."""
    return Table(*columns, box=SIMPLE_HEAD, pad_edge=False, padding=0)


def number_table(
    headings: Sequence[str],
    title: str,
    caption: str,
    rows: Iterable[Sequence[str]] = (),
    min_width: int | None = None,
) -> Table:
    """Return a table of numbers; the first column is on the left."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=0, min_width=min_width)
    table.title, table.caption = escape(printable(title)), escape(caption)
    for number, heading in enumerate(headings):
        justify = "right" if number else "left"
        table.add_column(escape(printable(heading)), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def row_table(noun: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of rows with the same fields; the first field, the name, has `noun` as its heading."""
    table = plain_table(noun, *list(rows[0])[1:])
    for row in rows:
        table.add_row(*(", ".join(cell) if isinstance(cell, tuple) else str(cell) for cell in row.values()))
    return table


def print_whole(table: Table) -> None:
    """Print a table: whole lines in a file or a pipe; on a narrow terminal a cell may take several lines."""
    # A terminal that is called dumb takes a width only with a height.
    width = console.width if console.is_terminal else UNBOUNDED
    Console(width=width, height=console.height).print(table)


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
    """Show envwright's own log on the screen; call before anything imports Prefect."""
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    logger = logging.getLogger("envwright")
    logger.setLevel(logging.INFO)
    logger.addHandler(ConsoleHandler())


def start_prefect() -> None:
    """Show the log, and start Prefect's temporary server if none is configured."""
    show_log()
    say("starting Prefect ...")
    prepare()
    start_server()
