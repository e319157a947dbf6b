"""`envwright export`: a stage's data and reward for other trainers."""

from pathlib import Path
from typing import Annotated

import typer

from envgen.terminal import say
from flows.commands.terminal import RUN
from infra.config.settings import Settings
from infra.export import Target
from infra.runs.run import Run

commands = typer.Typer()


@commands.command(epilog="Example: `envwright export tiny-checkpoint-V6W-s0 --stage 2 --to verifiers`")
def export(
    run: RUN,
    stage: Annotated[int, typer.Option(min=0, help="The stage whose training data are exported.")],
    to: Annotated[
        Target,
        typer.Option(help="verifiers: a package with data and reward. hf: a Hugging Face data set."),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Folder; RUN-stage-N-TARGET in this one if left out."),
    ] = None,
) -> None:
    """Write a stage's training data, the validation set and, for verifiers, the reward."""
    from infra.export.write import export

    files = Run(directory=Settings().find_run(run))
    folder = output or Path(f"{files.directory.name}-stage-{stage}-{to}")
    say(f"exported: {export(files, stage, to, folder)}")
