"""`envwright COMMAND`: the command line. Heavy imports happen inside the commands, so that `--help` is
quick."""

import errno
import gc
import sys
from typing import Annotated

try:
    import typer

    from envgen.errors import ChildError, EnvwrightError
    from envgen.mapf import cli as mapf_cli
    from flows.commands import (
        approval_cli,
        benchmark_cli,
        environment_cli,
        export_cli,
        presets_cli,
        run_cli,
        runs_cli,
        server_cli,
        setup_cli,
    )
    from flows.commands.terminal import BAD_INPUT, FAILED
    from flows.stopping import run_stoppable
except KeyboardInterrupt:  # before `run_stoppable`, and before anything is begun
    sys.exit(130)

_MODULES = (
    run_cli,
    approval_cli,
    runs_cli,
    benchmark_cli,
    mapf_cli,
    export_cli,
    server_cli,
    presets_cli,
    setup_cli,
)
PANELS = {
    "Run": ("run", "approve", "reject"),
    "Look": ("runs", "show", "report"),
    "Compare": ("compare", "benchmark"),
    "Environments and data": ("export", "generate", "solve", "verify", "render", "environment"),
    "Serve": ("serve",),
    "Set up": ("presets", "engineers", "init", "bootstrap"),
}
"""Group of the help -> its commands."""

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
_COMMANDS = {
    command.callback.__name__: command
    for module in _MODULES
    for command in module.commands.registered_commands
    if command.callback
}
for _panel, _names in PANELS.items():
    for _name in _names:
        if _name == "environment":
            app.add_typer(environment_cli.environment, name=_name, rich_help_panel=_panel)
        else:
            _COMMANDS[_name].rich_help_panel = _panel
            app.registered_commands.append(_COMMANDS[_name])


def _show_version(wanted: bool) -> None:
    if wanted:
        from infra.config.versions import code_version, library_versions, machine

        typer.echo(f"envwright {code_version()}")
        if "--verbose" in sys.argv:
            for name, number in library_versions().items():
                typer.echo(f"{name} {number}")
            typer.echo(machine())
        raise typer.Exit


@app.callback()
def options(
    verbose: Annotated[
        bool,
        typer.Option("--verbose", help="With --version: libraries and machine too.", is_eager=True),
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version, with the commit of a checkout, and stop.",
            callback=_show_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Reinforcement learning in which the policy redesigns its own environment."""


def main() -> None:
    """Entry point: errors of the user become one message and exit code 2, failures exit code 1."""
    gc.set_threshold(100_000, 20, 20)  # see policy.grpo.training
    run_stoppable(_run)


def _run() -> None:
    try:
        app()
    except Exception as error:
        sys.exit(_explain(error))


def _explain(error: Exception) -> int:
    from httpx import HTTPStatusError, codes

    from infra.serving.access import CLIENT

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
    if isinstance(error, OSError) and (
        wrong_path or error.errno in {errno.ENAMETOOLONG, errno.ELOOP, errno.EROFS}
    ):
        typer.echo(
            f"error: {error.filename2 or error.filename}: {error.strerror}; choose another path", err=True
        )
        return BAD_INPUT
    if isinstance(error, HTTPStatusError) and error.response.status_code == codes.UNAUTHORIZED:
        typer.echo(
            f"error: {error.request.url.host}: Prefect asks for a login; export {CLIENT}=USER:PASSWORD",
            err=True,
        )
        return BAD_INPUT
    raise error


if __name__ == "__main__":
    main()
