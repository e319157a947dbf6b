"""`envwright presets`, `engineers`, `init`: what a run is made from, and a preset of one's own."""

from pathlib import Path
from typing import Annotated, Any

import typer

from engineer.engineers.registry import find_engineer, known_engineers
from envgen.errors import ConfigError
from envgen.files import write_text
from envgen.terminal import printable, say
from envgen.yaml_files import read_yaml
from flows.commands.terminal import JSON, print_rows
from infra.config.preset import load_preset, preset_path, shipped_presets
from infra.config.written import own_preset

commands = typer.Typer()


@commands.command(epilog="Example: `envwright presets`")
def presets(json_: JSON = False) -> None:
    """The presets that are shipped, with what each is; --dry-run of `run` shows all fields of one."""
    # As they are written: an environment may need a package that is not installed.
    written = [{"name": name, **read_yaml(preset_path(name))} for name in shipped_presets()]
    headings = {"name": "preset", "model": "model", "stages": "stages", "description": "is"}
    print_rows([{field: preset[field] for field in headings} for preset in written], headings, json_)


@commands.command(epilog="Example: `envwright engineers`")
def engineers(json_: JSON = False) -> None:
    """Who can design the next environment config, and what each needs."""
    headings = {"name": "engineer", "proposes": "proposes", "needs": "needs", "options": "options"}
    print_rows([_engineer_words(name) for name in known_engineers()], headings, json_)


def _engineer_words(name: str) -> dict[str, Any]:
    """What an engineer proposes, the model that it asks, the options that it cannot do without, and all."""
    try:
        engineer = find_engineer(name)
    except ConfigError as error:  # of a package that cannot be loaded
        return {"name": name, "proposes": "", "needs": printable(str(error)), "options": ()}
    fields = engineer.options.model_fields
    asked = {"checkpoint": "the policy just trained", "base": "the base policy"}
    needs = [asked[engineer.asks]] if engineer.asks else []
    needs += [f"option {field}" for field, info in fields.items() if info.is_required() or info.default == ""]
    proposes = (engineer.propose.__doc__ or "").strip().split("\n")[0]
    return {"name": name, "proposes": proposes, "needs": ", ".join(needs), "options": tuple(fields)}


@commands.command(epilog="Example: `envwright init mine --from tiny`")
def init(
    name: Annotated[str, typer.Argument(help="Name of the preset; NAME.yaml is written in this folder.")],
    source: Annotated[
        str, typer.Option("--from", help="The preset to start from, shipped or the path of a YAML file.")
    ] = "tiny",
) -> None:
    """Write a preset of your own, with what each field means, ready to be changed."""
    path = Path(f"{name}.yaml")
    text = own_preset(name, source)
    if name in shipped_presets():
        raise ConfigError(f"{name}: is the name of a shipped preset; choose another one")
    if path.exists():
        raise ConfigError(f"{path}: is there already; choose another name, or move it away")
    write_text(path, text)
    try:
        load_preset(f"./{path}")
    except ConfigError:  # as of files that lie beside the other preset
        path.unlink()
        raise
    say(f"{path}: 'envwright run ./{path} --dry-run' shows what it would take, without --dry-run it runs")
