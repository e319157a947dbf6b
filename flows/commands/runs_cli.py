"""`envwright runs`, `show`, `report` and `export`: look at runs, and take data out of them."""

import time
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import RenderableType
from rich.text import Text

from envgen.terminal import console, printable, say
from flows.commands.terminal import FAILED, JSON, RUN, WAITING, plain_table, print_json, print_whole
from infra.config.settings import Settings
from infra.formats import duration, estimate, narrow, short_count
from infra.run_status import RunState, RunStatus, read_status, run_directories, run_status
from infra.runs.files import RESULTS
from infra.runs.run import Run
from infra.runs.run_log import new_lines
from infra.summary import headlines

COLUMNS = ("run", "stages", "state", "valid %", "age")
LOOK_SECONDS = 1.0
LOG_LINES = 8
"""Earlier lines of a log that `show --watch` prints first."""


def runs(json_: JSON = False) -> None:
    """List every run in the runs folder, runs of comparisons too; the newest is last.

    Example: `envwright runs`
    """
    folder = Settings().runs
    statuses = sorted(map(run_status, run_directories(folder)), key=lambda status: status.changed)
    if json_:
        return print_json(statuses)
    if not statuses:
        return say(f"{folder}: no run there yet; 'envwright run micro' makes one in a minute")
    table = plain_table(*COLUMNS)
    table.columns[0].no_wrap = True
    for status in statuses:
        stages = f"{status.done} of {status.stages}" if status.stages else ""
        cells = (status.name, stages, status.state, narrow(status.valid), _age(status))
        table.add_row(*map(printable, cells))
    print_whole(table)
    for status in statuses:
        if status.reason:
            say(f"{status.name}: {status.reason}")


def show(
    run: RUN,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Print the log to the run's end; exit code 3: it waits, 1: cut off."),
    ] = False,
    json_: JSON = False,
) -> None:
    """Show one run: its rates and state, and the command that continues it.

    Example: `envwright show tiny-checkpoint-V6W-s0 --watch`
    """
    directory = Settings().find_run(run)
    detail = _watched(directory) if watch else read_status(directory)
    if json_:
        print_json(detail)
    else:
        for part in _heading(detail):
            console.print(part)
        for line in _detail_lines(detail):
            say(line)
    if watch and (code := {RunState.WAITING: WAITING, RunState.CUT_OFF: FAILED}.get(detail.state)):
        raise typer.Exit(code)


def _watched(directory: Path) -> RunStatus:
    """Print new lines of a run's log until the run ends, on a terminal the last earlier ones too; return the
    state of the run at its end."""
    detail = read_status(directory)
    lines, read = new_lines(Run(directory=directory), 0)
    lines = lines[-LOG_LINES:] if console.is_terminal and detail.state is RunState.RUNNING else []
    while True:
        for line in lines:
            say(line)
        if detail.state is not RunState.RUNNING:
            return detail
        time.sleep(LOOK_SECONDS)
        detail = read_status(directory)
        lines, read = new_lines(Run(directory=directory), read)


def _heading(detail: RunStatus) -> list[RenderableType]:
    """A line on how a run stands, and the rates so far."""
    from flows.commands.tables import rates_table

    stages = f"{detail.done} of {detail.stages} stages"
    stands = Text(f"{printable(detail.name)}: {detail.state}, {stages}, changed {_age(detail)} ago")
    if not detail.done:
        return [stands]
    run = Run(directory=detail.directory)
    return [stands, rates_table(run.read(RESULTS), run.preset.space.best)]


def _detail_lines(detail: RunStatus) -> list[str]:
    lines = [f"preset {detail.preset}, engineer {detail.engineer}"]
    if detail.done:
        run, made = Run(directory=detail.directory), detail.made
        lines = [*headlines(run.read(RESULTS), run.preset.space.best), *lines]
        spent = f"{duration(made.seconds)}, {short_count(made.tokens)} tokens, evaluation included"
        lines.append(f"spent on complete stages: {spent}")
    elif detail.valid:
        lines.append(f"base policy: valid {estimate(detail.valid)}")
    lines += [f"at work: {detail.working}"] if detail.working else []
    lines += [f"last: {detail.last}"] if detail.last else []
    lines += ["next:", *(f"  {command}" for command in detail.commands)] if detail.commands else []
    return lines + ([f"report: {detail.report}"] if detail.report else [])


def _age(status: RunStatus) -> str:
    """How long ago a run was last worked on."""
    return duration(max(0.0, time.time() - status.changed.timestamp()))


def report(run: RUN) -> None:
    """Write the HTML report of a run again.

    Example: `envwright report tiny-checkpoint-V6W-s0`
    """
    from infra.report.page import write_report

    say(f"report: {write_report(Settings().find_run(run))}")


def export(
    run: RUN,
    stage: Annotated[int, typer.Option(min=0, help="The stage whose training data are exported.")],
    to: Annotated[
        Literal["verifiers", "hf"],
        typer.Option(help="verifiers: a package with data and reward. hf: a Hugging Face data set."),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Folder; RUN-stage-N-TARGET in this one if left out."),
    ] = None,
) -> None:
    """Export a stage's training data, the validation set and, for verifiers, the reward.

    Example: `envwright export tiny-checkpoint-V6W-s0 --stage 2 --to verifiers`
    """
    from infra.export.write import export as write_export

    files = Run(directory=Settings().find_run(run))
    folder = output or Path(f"{files.directory.name}-stage-{stage}-{to}")
    say(f"exported: {write_export(files, stage, to, folder)}")
