"""Commands that task families bring along: `solve`, `render` and others of MAPF-FrozenLake.

A package adds commands for its family through the entry point group `envwright.commands`; the value leads to
a `typer.Typer`. Its module is imported at every start, so that heavy imports belong inside the commands.
"""

from collections.abc import Iterator

import typer

from envgen.errors import ConfigError
from envgen.registry import DEFAULT, Registry

_GROUP = "envwright.commands"
_COMMANDS = Registry(
    group=_GROUP,
    field=_GROUP,
    kind=typer.Typer,
    ours={DEFAULT: "envgen.mapf.cli:commands"},
)


def found() -> Iterator[typer.Typer]:
    """The commands of each family; those of a package that cannot be loaded are left out, with a warning."""
    for name in _COMMANDS.names():
        try:
            yield _COMMANDS.load(name)
        except ConfigError as error:
            typer.echo(f"warning: {error}", err=True)
