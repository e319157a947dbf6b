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
from rich.measure import Measurement
from rich.table import Table

from envgen.terminal import console, printable, say
from flows.environment import prepare, start_server

BAD_INPUT, FAILED, WAITING = 2, 1, 3
"""Exit codes. WAITING: the run is sound, and goes on when a person has decided on a proposal."""
WIDEST = 250
"""Characters of a line that a table with wrapped cells takes in a file or a pipe."""
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
    headings: Sequence[str], title: str, caption: str, words: Iterable[str] = (), min_width: int | None = None
) -> Table:
    """Return a table of numbers, which never wrap; the first column and those in `words` are on the left."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=0, min_width=min_width)
    table.title, table.caption = escape(printable(title)), escape(caption)
    left = {headings[0], *words}
    for heading in headings:
        justify = "left" if heading in left else "right"
        table.add_column(escape(printable(heading)), justify=justify, no_wrap=True)
    return table


def row_table(noun: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of rows with the same fields; the first field, the name, has `noun` as its heading."""
    table = plain_table(noun, *list(rows[0])[1:])
    for row in rows:
        table.add_row(*(", ".join(cell) if isinstance(cell, tuple) else str(cell) for cell in row.values()))
    return table


def fitted(table: Table, spared: Iterable[str], room: int) -> int:
    """Take columns out of a table, in the order of `spared`, until it breaks no cell in `room` characters a
    line; return how many it then needs."""

    def needed() -> int:
        return Measurement.get(console, console.options.update_width(UNBOUNDED), table).maximum

    for name in spared:
        if needed() > room:
            table.columns = [column for column in table.columns if column.header != name]
    return needed()


def print_whole(table: Table, spared: Iterable[str] = ()) -> None:
    """Print a table without breaking a cell. A terminal that is too narrow does without `spared` columns; a
    file or a pipe has them all."""
    room, spared = (console.width, spared) if console.is_terminal else (WIDEST, ())
    # A terminal that is called dumb takes a width only with a height.
    Console(width=max(room, fitted(table, spared, room)), height=console.height).print(table)


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


def start_orchestrator() -> None:
    """Show the log, and start Prefect's temporary server if none is configured."""
    show_log()
    say("starting the orchestrator ...")
    prepare()
    start_server()
