"""`envwright serve`."""

import time
from typing import Annotated

import typer

from envgen.terminal import say

commands = typer.Typer()


@commands.command(epilog="Example: `envwright serve`")
def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but loopback lets other machines log in.")
    ] = "127.0.0.1",
    prefect_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of Prefect.")] = 4200,
    mlflow_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of MLflow.")] = 5000,
    name: Annotated[
        list[str] | None,
        typer.Option(help="Another host name that browsers use, for example of a proxy; may be repeated."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Runs at a time; more wait for their turn.")] = 1,
) -> None:
    """Prefect server, MLflow server and a worker on this machine; Ctrl-C ends them all."""
    from flows.environment import prepare
    from flows.serve import serve as serve_all

    prepare()
    serve_all(
        host,
        prefect_port,
        mlflow_port,
        name or [],
        limit,
        lambda text: say(f"{time.strftime('%H:%M:%S')}  {text}"),
    )
