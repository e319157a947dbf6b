"""`envwright COMMAND`: the command line. Heavy imports happen inside the commands, so that `--help` is
quick."""

import errno
import gc
import sys
from collections.abc import Callable
from typing import Annotated

try:
    import typer

    from envgen.errors import ChildError, EnvwrightError
    from envgen.mapf.cli import mapf
    from flows.commands.approval_cli import approve, reject
    from flows.commands.benchmark_cli import benchmark
    from flows.commands.engineers_cli import engineers
    from flows.commands.new_cli import check, new, presets
    from flows.commands.profile_cli import profile
    from flows.commands.run_cli import compare, run
    from flows.commands.runs_cli import export, report, runs, show
    from flows.commands.serve_cli import serve
    from flows.commands.terminal import BAD_INPUT, FAILED
    from flows.commands.warmstart_cli import warmstart
    from flows.stopping import run_stoppable
except KeyboardInterrupt:  # before `run_stoppable`, and before anything is begun
    sys.exit(130)

COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Run": (run, approve, reject),
    "Look": (runs, show, report),
    "Compare": (compare, benchmark),
    "Prepare": (presets, check, profile, warmstart),
    "Data": (export,),
    "Serve": (serve,),
}
"""Panel of the help -> its commands."""
GROUPS = {"Prepare": {"engineers": engineers, "new": new}, "Data": {"mapf": mapf}}
"""Panel of the help -> its groups of commands, which stand below its commands."""

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
for panel, functions in COMMANDS.items():
    for function in functions:
        app.command(rich_help_panel=panel)(function)
    for name, group in GROUPS.get(panel, {}).items():
        app.add_typer(group, name=name, rich_help_panel=panel)


def _show_version(wanted: bool) -> None:
    if wanted:
        from infra.config.versions import code_version, library_versions, machine

        for name, number in {"envwright": code_version(), **library_versions()}.items():
            typer.echo(f"{name} {number}")
        typer.echo(machine())
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version with the commit of a checkout, libraries and machine, and stop.",
            callback=_show_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Compare environment engineers: who designs the next training tasks of a language model best?"""


_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_WRONG_PATH = {errno.EACCES, errno.EPERM, errno.EEXIST, errno.ENOTDIR, errno.EISDIR}
_WRONG_PATH |= {errno.ENAMETOOLONG, errno.ELOOP, errno.EROFS}


def main() -> None:
    """Entry point: errors of the user become one message and exit code 2, failures exit code 1."""
    gc.set_threshold(100_000, 20, 20)  # see policy.grpo.training
    run_stoppable(_run)


def _run() -> None:
    try:
        app()
    except Exception as error:
        if (message := _message(error)) is None:
            raise
        typer.echo(f"error: {message}", err=True)
        sys.exit(FAILED if isinstance(error, ChildError) else BAD_INPUT)


def _message(error: Exception) -> str | None:
    """Return what a person can do about an error; None for an error of our own."""
    from httpx import HTTPStatusError, codes

    from infra.serving.access import CLIENT

    if isinstance(error, EnvwrightError):
        return str(error)
    if isinstance(error, OSError) and error.errno in _DISK_FULL:
        remedy = "free some space and run the same command again, complete steps are kept"
        return f"{error.filename or 'the disk'}: {error.strerror}; {remedy}"
    if isinstance(error, OSError) and error.errno in _WRONG_PATH:
        return f"{error.filename2 or error.filename}: {error.strerror}; choose another path"
    if isinstance(error, HTTPStatusError) and error.response.status_code == codes.UNAUTHORIZED:
        return f"{error.request.url.host}: Prefect asks for a login; export {CLIENT}=USER:PASSWORD"
    return None


if __name__ == "__main__":
    main()
