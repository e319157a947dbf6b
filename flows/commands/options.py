"""Options that commands share, and those of a dry run."""

from typing import Annotated

import typer

Preset = Annotated[str, typer.Argument(help="A shipped preset, or the path of a YAML file.")]
Stages = Annotated[int | None, typer.Option(help="Number of stages.")]
Name = Annotated[str | None, typer.Option(help="Name of the directory in the runs folder.")]
Yes = Annotated[bool, typer.Option("--yes", help="Run also what takes long.")]
Jobs = Annotated[
    int, typer.Option(min=1, help="Curricula at a time, among which cores and GPUs are shared out.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Any field of the preset, as a.b=c; may be repeated. engineer.options are of engineer.name.",
    ),
]

DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Print the resolved preset, its optimizer steps and its tokens, and stop.",
    ),
]
