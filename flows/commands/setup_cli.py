"""`envwright bootstrap` and `doctor`: a base policy of one's own, and whether everything is there."""

from pathlib import Path
from typing import Annotated

import typer

from envgen.errors import ConfigError
from envgen.terminal import console, say
from flows.commands.terminal import BAD_INPUT, show_log

commands = typer.Typer()


@commands.command(epilog="Example: `envwright bootstrap -o base --set steps=200`")
def bootstrap(
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            help="Directory of the new base policy; DIRECTORY-work beside it holds its checkpoints.",
        ),
    ],
    recipe: Annotated[
        Path | None, typer.Option(help="Recipe, YAML; that of the shipped base policy if left out.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Any field of the recipe, as a=b; may be repeated.")
    ] = None,
) -> None:
    """Make a tiny base policy from nothing; the same command continues one that was cut off."""
    from infra.config.preset import load_recipe, parse_override

    chosen = load_recipe(recipe, dict(parse_override(text) for text in set_ or []))
    if output.exists():
        raise ConfigError(f"{output}: exists already; choose another -o, or remove it")
    show_log()
    from flows.bootstrap import bootstrap as bootstrap_flow

    bootstrap_flow(output, chosen)
    say(f"base policy: {output}")


@commands.command(epilog="Example: `envwright doctor`")
def doctor() -> None:
    """Versions, devices, folders and servers; exit code 2 for a set of versions that is known not to work."""
    from flows.commands.doctor import examine

    if not examine(console):
        raise typer.Exit(BAD_INPUT)
