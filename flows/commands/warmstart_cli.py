"""`envwright warmstart`: warm-start a base policy."""

from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field
from rich.table import Table

from envgen.errors import ConfigError
from envgen.terminal import console, say
from flows.commands.terminal import JSON, plain_table, print_json, show_log
from flows.forms import OptionsForm, takes_options
from infra.config.recipe import load_recipe, warm_start
from infra.formats import narrow
from policy.checkpoints import check_hub, check_model
from policy.grpo.check import CheckSpec, plan_training
from policy.tiny.spec import RATES, BootstrapRecipe, Taught


class WarmStartOptions(OptionsForm):
    """What is taught, and to which model."""

    recipe: str = ""
    """Recipe, YAML; the recipe of the shipped base policy if left out."""
    model: str = ""
    """Chat model to teach instead of the preset's, with its own tokenizer and chat template: a hub id or a
    folder."""
    preset: str = ""
    """Preset that the policy is for: environment, prompt style, default config, and model unless named."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Any field of the recipe, as steps=150."""


@takes_options(WarmStartOptions)
def warmstart(
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            help="Directory of the new base policy; DIRECTORY-work beside it holds its checkpoints.",
        ),
    ],
    options: WarmStartOptions,
    json_: JSON = False,
) -> None:
    """Warm-start a chat model from an environment's reference answers, or make a tiny policy from nothing.

    The same command continues one that was cut off.

    Example: `envwright warmstart -o warm --preset smollm2-135m`
    """
    chosen = _recipe(options)
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


def _recipe(options: WarmStartOptions) -> BootstrapRecipe:
    """Return the recipe of a file, of what the options name, or the shipped one; ConfigError for both."""
    named = options.model_dump(include={"model", "preset"})
    if options.recipe and named:
        raise ConfigError(
            f"--{next(iter(named))}: the recipe {options.recipe} says this; leave one of the two out"
        )
    if options.model and not options.preset:
        raise ConfigError("--model: needs a --preset, which says what is taught; name one")
    path = Path(options.recipe) if options.recipe else None
    return load_recipe(path, options.settings, warm_start(**named) if named else None)


def _taught_table(taught: Taught) -> Table:
    """Valid rate of every stratum of every lesson before and after, with intervals."""
    table = plain_table("", "", "before", f"after {taught.steps} steps")
    table.title, table.caption = "Valid answers in %", "greedy; 95 % intervals; none of it was taught"
    for lesson, rates in taught.after.items():
        for stratum, rate in rates.items():
            before = taught.before.get(lesson, {}).get(stratum)
            table.add_row(lesson, stratum, narrow(before), narrow(rate))
    return table
