"""`envwright warmstart`: warm-start a base policy."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from envgen.errors import ConfigError
from envgen.terminal import console, say
from flows.commands.terminal import JSON, plain_table, print_json, show_log
from infra.config.dotted import parse_override
from infra.config.recipe import load_recipe, warm_start
from infra.formats import narrow
from policy.checkpoints import check_hub, check_model
from policy.grpo.check import CheckSpec, plan_training
from policy.tiny.spec import RATES, BootstrapRecipe, Taught


def warmstart(
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            help="Directory of the new base policy; DIRECTORY-work beside it holds its checkpoints.",
        ),
    ],
    recipe: Annotated[
        Path | None, typer.Option(help="Recipe, YAML; the recipe of the shipped base policy if left out.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Chat model to teach, with its own tokenizer and chat template: a hub id or a folder."
        ),
    ] = None,
    environment: Annotated[
        str | None,
        typer.Option(help="Environment whose reference answers it is taught; mapf-frozenlake if left out."),
    ] = None,
    style: Annotated[
        str | None, typer.Option(help="How instances are put into words; the usual way if left out.")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="Preset that the policy is for: its model, environment, style and first config, unless said"
            " otherwise."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Any field of the recipe, as a=b; may be repeated.")
    ] = None,
    json_: JSON = False,
) -> None:
    """Warm-start a chat model from an environment's reference answers, or make a tiny policy from nothing.

    The same command continues one that was cut off.

    Example: `envwright warmstart -o warm --preset smollm2-135m`
    """
    named = {"model": model, "environment": environment, "style": style, "preset": preset}
    chosen = _recipe(recipe, named, set_ or [])
    if output.exists():
        raise ConfigError(f"{output}: exists already; choose another -o, or remove it")
    if chosen.model is not None:
        check_model(chosen.model)
        check_hub(chosen.model)
    if chosen.lora is not None:
        plan_training(CheckSpec(trl={}, lora=chosen.lora, lora_field="lora"))
    from tasks.bootstrap import bootstrap_policy

    show_log()
    bootstrap_policy(output, chosen)
    taught = Taught.model_validate_json((output / RATES).read_bytes())
    if json_:
        print_json(taught)
    else:
        console.print(_taught_table(taught))
    say(f"base policy: {output}")


def _recipe(path: Path | None, named: dict[str, str | None], settings: list[str]) -> BootstrapRecipe:
    """The recipe at `path`, a recipe for a warm start if anything is named for one, or the shipped one;
    ConfigError if both are given."""
    options = [name for name, value in named.items() if value is not None]
    if path is not None and options:
        raise ConfigError(f"--{options[0]}: the recipe {path} says this; leave one of the two out")
    overrides = dict(map(parse_override, settings))
    return load_recipe(path, overrides, warm_start(**named) if options else None)


def _taught_table(taught: Taught) -> Table:
    """Valid rate of every stratum of every lesson before and after, with intervals."""
    table = plain_table("", "", "before", f"after {taught.steps} steps")
    table.title, table.caption = "Valid answers in %", "greedy; 95 % intervals; none of it was taught"
    for lesson, rates in taught.after.items():
        for stratum, rate in rates.items():
            before = taught.before.get(lesson, {}).get(stratum)
            table.add_row(lesson, stratum, narrow(before), narrow(rate))
    return table
