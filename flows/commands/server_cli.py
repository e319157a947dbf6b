"""The commands of `envwright` that need a Prefect server: `serve`, `deploy`,
`janitor`, `notify`."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from envgen.terminal import say

commands = typer.Typer()
Limit = Annotated[
    int, typer.Option(min=1, help="Runs at a time on the work pool `local`; more wait for their turn.")
]
Resume = Annotated[
    int,
    typer.Option(
        min=0, help="Crashes after which a run is still scheduled again by itself; 0 leaves that to a person."
    ),
]


def _stamped(text: str) -> None:
    say(f"{time.strftime('%H:%M:%S')}  {text}")


@commands.command(epilog="Example: `envwright serve`")
def serve(
    host: Annotated[
        str,
        typer.Option(
            help=(
                "Address to listen on. Any but loopback exposes both servers, and only Prefect asks for a"
                " login."
            )
        ),
    ] = "127.0.0.1",
    prefect_port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port of Prefect: 4200.")] = None,
    mlflow_port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port of MLflow: 5000.")] = None,
    limit: Limit = 1,
    resume: Resume = 0,
) -> None:
    """Prefect server, MLflow server and workers on this machine; Ctrl-C ends them all."""
    from flows.serve import alone
    from flows.serve import serve as serve_all
    from infra.serving.addresses import choose_addresses

    confirm = (
        (lambda question: typer.confirm(question, default=True))
        if sys.stdin.isatty() and sys.stdout.isatty()
        else None
    )
    with alone():
        serve_all(choose_addresses(host, prefect_port, mlflow_port, limit, confirm), limit, resume, _stamped)


@commands.command(epilog="Example: `envwright deploy`")
def deploy(
    file: Annotated[
        Path | None, typer.Option(help="Deployments other than those of this project's prefect.yaml.")
    ] = None,
    limit: Limit = 1,
    keep_pools: Annotated[
        bool,
        typer.Option(
            "--keep-pools",
            help="Leave work pools that exist as they are: of Kubernetes, with limits of your own.",
        ),
    ] = False,
    worker_folders: Annotated[
        bool,
        typer.Option(
            "--worker-folders",
            help=(
                "Let each worker's own ENVWRIGHT_RUNS say where its runs are: for machines that share"
                " ENVWRIGHT_REMOTE and no folder."
            ),
        ),
    ] = False,
) -> None:
    """Make or update the work pools and deployments on the Prefect server that is configured."""
    from infra.serving.deploy import PROJECT
    from infra.serving.deploy import deploy as deploy_all

    deploy_all(
        file or PROJECT / "prefect.yaml", limit, say, keep_pools=keep_pools, worker_folders=worker_folders
    )


@commands.command(epilog="Example: `envwright janitor --resume 3`")
def janitor(
    max_silence: Annotated[
        int,
        typer.Option(
            min=120,
            help=(
                "Seconds without a heartbeat after which a run is dead: at least four heartbeats of 30 s,"
                " because a server restarts."
            ),
        ),
    ] = 120,
    max_start: Annotated[
        int,
        typer.Option(min=120, help="Seconds a run may take from the worker that takes it to its first line."),
    ] = 900,
    resume: Resume = 0,
    every: Annotated[int, typer.Option(min=1, help="Seconds between two looks.")] = 30,
    once: Annotated[bool, typer.Option("--once", help="Look once and end.")] = False,
) -> None:
    """Mark runs on the Prefect server whose process is gone as crashed, so that they can be retried.

    Living, paused and suspended runs, and runs of others, are left alone. `envwright serve` brings a janitor
    of its own; beside another server, keep one running.
    """
    import logging

    from infra.serving.deploy import check_server, server_address
    from infra.serving.janitor import clean, keep_watch

    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    logging.getLogger("envwright").setLevel(logging.INFO)
    if once:
        check_server()
        clean(max_silence=max_silence, max_start=max_start, resume=resume)
    else:
        server_address()  # one that does not answer yet is waited for
        keep_watch(every=every, max_silence=max_silence, max_start=max_start, resume=resume)


@commands.command(epilog="Example: `envwright notify https://hooks.example.org/abc`")
def notify(
    url: Annotated[
        str, typer.Argument(help="A webhook; it is sent JSON with the fields text, run, state and url.")
    ],
) -> None:
    """Have the Prefect server call a webhook when a run fails, crashes or waits for approval."""
    from infra.serving.notify import notify as notify_all

    notify_all(url, say)
