"""`envwright COMMAND`: the command line. Heavy imports happen inside the commands, so that `--help` is
quick."""

import errno
import sys

import typer

from envgen.errors import ChildError, EnvwrightError
from flows.commands import (
    approval_cli,
    benchmark_cli,
    export_cli,
    family_cli,
    family_commands,
    fetch_cli,
    run_cli,
    server_cli,
    setup_cli,
    study_cli,
)
from flows.commands.terminal import BAD_INPUT, FAILED

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    help="Reinforcement learning in which the policy redesigns its own environment.",
)
for group in (
    run_cli,
    approval_cli,
    server_cli,
    family_cli,
    export_cli,
    benchmark_cli,
    study_cli,
    fetch_cli,
    setup_cli,
):
    app.add_typer(group.commands)
for commands in family_commands.found():
    app.add_typer(commands)


def main() -> None:
    """Entry point: errors of the user become one message and exit code 2, failures exit code 1."""
    try:
        app()
    except Exception as error:
        sys.exit(_explain(error))


def _explain(error: Exception) -> int:
    from httpx import HTTPStatusError, codes

    from infra.serving.auth import REMEDY

    if isinstance(error, EnvwrightError):
        typer.echo(f"error: {error}", err=True)
        return FAILED if isinstance(error, ChildError) else BAD_INPUT
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        typer.echo(
            f"error: {error.filename or 'the disk'}: {error.strerror}; free some space and run the same"
            " command again, complete steps are kept",
            err=True,
        )
        return BAD_INPUT
    wrong_path = isinstance(error, PermissionError | FileExistsError | NotADirectoryError | IsADirectoryError)
    if isinstance(error, OSError) and (wrong_path or error.errno in {errno.ENAMETOOLONG, errno.ELOOP}):
        typer.echo(
            f"error: {error.filename2 or error.filename}: {error.strerror}; choose another path", err=True
        )
        return BAD_INPUT
    if isinstance(error, HTTPStatusError) and error.response.status_code == codes.UNAUTHORIZED:
        typer.echo(
            f"error: {error.request.url.host}: the Prefect server asks for an auth string; {REMEDY}", err=True
        )
        return BAD_INPUT
    raise error


if __name__ == "__main__":
    main()
