"""Commands that task families bring along: `solve`, `render` and others of MAPF-FrozenLake.

A package adds commands for its family through the entry point group `envwright.commands`; the value leads to
a `typer.Typer`. Its module is imported at every start, so that heavy imports belong inside the commands.
"""

from collections.abc import Iterator

import typer

from envgen.errors import ConfigError
from envgen.families import DEFAULT
from envgen.plugins import Plugins

_GROUP = "envwright.commands"
_COMMANDS = Plugins(
    group=_GROUP,
    noun="family with commands",
    field=_GROUP,
    kind="typer:Typer",
    ours={DEFAULT: "envgen.mapf.cli:commands"},
)


def found() -> Iterator[typer.Typer]:
    """The commands of each family; those of a package that cannot be loaded are left out, with a warning."""
    for name in _COMMANDS.known():
        try:
            yield _COMMANDS.find(name)
        except ConfigError as error:
            typer.echo(f"warning: {error}", err=True)
