"""`envwright COMMAND`: the command line. Heavy imports happen inside the commands, so that `--help` is
quick."""

import errno
import sys
from typing import Annotated, Any

try:
    import typer
    from typer.core import TyperGroup

    from envgen.errors import ChildError, ConfigError, EnvwrightError
    from envgen.registry import DEFAULT, Registry
    from flows.commands import (
        approval_cli,
        benchmark_cli,
        export_cli,
        family_cli,
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

FAMILY_COMMANDS = Registry(
    group="envwright.commands",
    field="envwright.commands",
    kind=typer.Typer,
    ours={DEFAULT: "envgen.mapf.cli:commands"},
)
"""Commands that task families bring along, as `solve` and `render` of MAPF-FrozenLake.

A package adds some through this group of entry points. Its module is imported at every start, so that heavy
imports belong inside the commands."""
_OF_FAMILIES = "Environments and data"
PANELS = {
    "Run": ("run", "approve", "reject"),
    "Look": ("runs", "status", "watch", "report"),
    "Compare": ("compare", "benchmark"),
    _OF_FAMILIES: ("family", "export"),
    "Serve": ("serve",),
    "Set up": ("presets", "engineers", "init", "bootstrap"),
}
"""Group of the help -> its commands; those of task families are with environments."""


class _Grouped(TyperGroup):
    """Commands in the groups, and in the order, of `PANELS`."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        panels = {name: panel for panel, names in PANELS.items() for name in names}
        order = list(PANELS)
        for name, command in self.commands.items():
            command.rich_help_panel = panels.get(name, _OF_FAMILIES)  # type: ignore[attr-defined]
        places = {name: (order.index(panel), place) for place, (name, panel) in enumerate(panels.items())}
        last = (order.index(_OF_FAMILIES), len(places))
        self.commands = dict(sorted(self.commands.items(), key=lambda item: places.get(item[0], last)))


app = typer.Typer(
    cls=_Grouped,
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
for group in (
    run_cli,
    approval_cli,
    server_cli,
    family_cli,
    export_cli,
    benchmark_cli,
    setup_cli,
    presets_cli,
    runs_cli,
):
    app.add_typer(group.commands)
for family in FAMILY_COMMANDS.names():
    try:
        app.add_typer(FAMILY_COMMANDS.load(family))
    except ConfigError as error:  # a package that cannot be loaded costs its commands only
        typer.echo(f"warning: {error}", err=True)
    except KeyboardInterrupt:
        sys.exit(130)


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
