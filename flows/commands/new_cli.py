"""`envwright presets`, `new` and `check`: what a run is made from, and parts of your own."""

import re
from importlib.util import find_spec
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any, Literal

import typer

from envgen import table
from envgen.errors import ConfigError
from envgen.files import write_text
from envgen.module import skeleton
from envgen.module.check import check_generator
from envgen.registry import DEFAULT, ENVIRONMENTS
from envgen.terminal import console, printable, say
from envgen.yaml_files import read_yaml
from flows.commands.terminal import FAILED, JSON, print_json, row_table
from infra.config.preset import Preset, load_preset, preset_path, shipped_presets
from infra.config.settings import checked_name

new = typer.Typer(
    no_args_is_help=True,
    help="Write a preset or an environment of your own.\n\nExample: `envwright new preset mine --from tiny`",
)


def presets(json_: JSON = False) -> None:
    """List the shipped presets, and the environments that a preset can name.

    `envwright run NAME --dry-run` prints all fields of a preset.

    Example: `envwright presets`
    """
    rows, fields = [], ("name", "model", "environment", "stages", "description")
    for name in shipped_presets():
        # Read without validation: an environment may need a package that is not installed.
        written = read_yaml(preset_path(name))
        row = {**written, "name": name, "environment": written.get("environment", {}).get("name", DEFAULT)}
        rows.append({field: row[field] for field in fields})
    environments = [_environment_row(name) for name in ENVIRONMENTS.names()]
    if json_:
        return print_json({"presets": rows, "environments": environments})
    console.print(row_table("preset", rows))
    console.print(row_table("environment", environments))


def _environment_row(name: str) -> dict[str, str]:
    try:
        environment = ENVIRONMENTS.load(name)
    except ConfigError as error:  # a package that cannot be loaded
        return {"name": name, "module": "", "description": printable(str(error))}
    return {"name": name, "module": environment.__module__, "description": first_line(environment)}


def first_line(documented: Any) -> str:
    """Return the first line of a docstring."""
    return (documented.__doc__ or "").strip().split("\n")[0]


@new.command("preset")
def new_preset(
    name: Annotated[str, typer.Argument(help="Name of the preset; the file is NAME.yaml in this folder.")],
    source: Annotated[
        str, typer.Option("--from", help="Preset to start from: a shipped one, or the path of a YAML file.")
    ] = "tiny",
) -> None:
    """Write NAME.yaml, a copy of a preset that explains its fields.

    Example: `envwright new preset mine --from tiny`
    """
    path = Path(f"{name}.yaml")
    text = _own_preset(checked_name(name, "NAME"), source)
    if name in shipped_presets():
        raise ConfigError(f"{name}: is the name of a shipped preset; choose another one")
    _check_free(path)
    write_text(path, text)
    try:
        load_preset(f"./{path}")
    except ConfigError:  # for example, files that lie beside the other preset
        path.unlink()
        raise
    say(f"{path}: 'envwright run ./{path} --dry-run' checks it, without --dry-run it trains")


def _own_preset(name: str, source: str) -> str:
    """Return the YAML of a preset under another name, with a comment above each field."""
    lines = [f"# {name}: made from the preset {source}. Try it: envwright run ./{name}.yaml --dry-run"]
    for line in preset_path(source).read_text(encoding="utf-8").splitlines():
        field = Preset.model_fields.get(line.partition(":")[0])
        lines += [f"# {text}" for text in wrap(field.description or "", 100)] if field else []
        lines.append(f"name: {name}" if line.startswith("name:") else line)
    return "\n".join([*lines, ""])


@new.command("environment")
def new_environment(
    name: Annotated[str, typer.Argument(help="Name of the files: letters, digits and underscores.")],
    kind: Annotated[
        Literal["generator", "dataset", "verifiers"],
        typer.Option(help="A generator or tasks of verifiers in NAME.py, or a data set in NAME.jsonl."),
    ] = "generator",
) -> None:
    """Write a generator or tasks, NAME.py, or a data set, NAME.jsonl, and a preset for it, NAME.yaml.

    Example: `envwright new environment riddles`
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or find_spec(name):
        remedy = "use small letters, digits and underscores, and no name of an installed module"
        raise ConfigError(f"{name!r}: is no free name for a Python file; {remedy}")
    source = Path(skeleton.__file__)
    remedy = f"change its parts 1 to 5, then 'envwright check {name}.py'"
    if kind == "dataset":
        source = Path(table.__file__).with_name("skeleton.jsonl")
        remedy = "put your rows there, and name its columns in the preset"
    if kind == "verifiers":
        source = Path(table.__file__).with_name("verifiers_skeleton.py")
        remedy = "change its parts 1 to 3; it runs with the interpreter of .venv-verifiers"
    file, preset = Path(f"{name}{source.suffix}"), Path(f"{name}.yaml")
    _check_free(file)
    _check_free(preset)
    write_text(file, source.read_text(encoding="utf-8"))
    template = source.with_suffix(".yaml").read_text(encoding="utf-8")
    write_text(preset, template.replace("NAME", name))
    say(f"{file}: {remedy}")
    say(f"{preset}: 'envwright run ./{preset}' runs the loop on it")


def _check_free(path: Path) -> None:
    if path.exists():
        raise ConfigError(f"{path}: exists already; choose another name, or move it away")


def check(
    file: Annotated[Path, typer.Argument(help="A generator, as `envwright new environment` writes one.")],
) -> None:
    """Check a generator file: run it at the ends of its knobs, twice, and with junk answers.

    Example: `envwright check riddles.py`
    """
    wrong = 0
    for finding in check_generator(file):
        wrong += not finding.ok
        say(f"{'ok   ' if finding.ok else 'WRONG'}  {finding.check}: {finding.detail}")
    say(f"{wrong} wrong" if wrong else f"nothing wrong was found with {file}")
    if wrong:
        raise typer.Exit(FAILED)
