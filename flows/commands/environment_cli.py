"""`envwright environment`: list environments, write a generator and check it."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from envgen.errors import ConfigError
from envgen.files import write_text
from envgen.module import skeleton
from envgen.module.check import check_generator
from envgen.registry import ENVIRONMENTS
from envgen.terminal import printable, say
from flows.commands.terminal import FAILED, JSON, print_rows

environment = typer.Typer(
    no_args_is_help=True,
    help="Environments: list them, write and check a generator.",
    epilog="Example: `envwright environment check riddles.py`",
)


@environment.command("list", epilog="Example: `envwright environment list`")
def list_environments(json_: JSON = False) -> None:
    """Every environment that a preset can name, with what it is."""
    environments = []
    for name in ENVIRONMENTS.names():
        try:
            environment = ENVIRONMENTS.load(name)
            module = environment.__module__
            words = (environment.__doc__ or "").strip().split("\n")[0]
        except ConfigError as error:
            module, words = "", printable(str(error))
        environments.append({"name": name, "module": module, "words": words})
    print_rows(environments, {"name": "environment", "module": "from", "words": "is"}, json_)


@environment.command(epilog="Example: `envwright environment new riddles`")
def new(
    name: Annotated[str, typer.Argument(help="Name of the generator: letters, digits and underscores.")],
) -> None:
    """Write NAME.py, a commented generator that passes the check, and NAME.yaml, a preset that runs on it."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or find_spec(name):
        raise ConfigError(
            f"{name!r}: is no free name for a Python file; use small letters, digits and underscores, "
            "and no name of an installed module"
        )
    code, preset = Path(f"{name}.py"), Path(f"{name}.yaml")
    for path in (code, preset):
        if path.exists():
            raise ConfigError(f"{path}: is there already; choose another name, or move it away")
    write_text(code, Path(skeleton.__file__).read_text(encoding="utf-8"))
    template = Path(skeleton.__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    write_text(preset, template.replace("NAME", name))
    say(f"{code}: change its parts 1 to 5, then 'envwright environment check {code}'")
    say(f"{preset}: 'envwright run ./{preset}' trains on it")


@environment.command(epilog="Example: `envwright environment check riddles.py`")
def check(
    file: Annotated[Path, typer.Argument(help="A generator, as `environment new` writes one.")],
) -> None:
    """Say what is wrong with a generator: run it at the ends of its knobs, twice, and with junk answers."""
    wrong = 0
    for finding in check_generator(file):
        wrong += not finding.ok
        mark = "ok   " if finding.ok else "WRONG"
        say(f"{mark}  {finding.check}: {finding.detail}")
    say(f"{wrong} wrong" if wrong else f"nothing wrong was found with {file}")
    if wrong:
        raise typer.Exit(FAILED)
