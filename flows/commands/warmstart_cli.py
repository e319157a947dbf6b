"""`envwright warmstart`: teach a chat model an environment before reinforcement learning."""

from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field
from rich.table import Table

from envgen.errors import ConfigError
from envgen.terminal import console, say
from flows.commands.options import takes_options
from flows.commands.terminal import JSON, plain_table, print_json, show_log
from flows.parameters import OptionsForm
from infra.config.recipe import load_recipe, recipe_fields
from infra.formats import narrow
from policy.checkpoints import check_hub, check_model
from policy.grpo.check import CheckSpec, plan_training
from policy.warm_start import RATES, Taught, WarmStartRecipe


class WarmStartOptions(OptionsForm):
    """What is taught, and to which model."""

    recipe: str = ""
    """Recipe, YAML, instead of the two options below."""
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
    """Warm-start a chat model from an environment's reference answers.

    The same command continues one that was cut off.

    Example: `envwright warmstart -o warm --preset smollm2-135m`
    """
    chosen = _recipe(options)
    if output.exists():
        raise ConfigError(f"{output}: exists already; choose another -o, or remove it")
    check_model(chosen.model)
    check_hub(chosen.model)
    if chosen.lora is not None:
        plan_training(CheckSpec(trl={}, lora=chosen.lora, lora_field="lora"))
    from tasks.warm_start import warm_start

    show_log()
    warm_start(output, chosen)
    taught = Taught.model_validate_json((output / RATES).read_bytes())
    if json_:
        print_json(taught)
    else:
        console.print(_taught_table(taught))
    say(f"base policy: {output}")


def _recipe(options: WarmStartOptions) -> WarmStartRecipe:
    """Return the recipe of a file, or of what the options name; ConfigError for both or none."""
    named = options.model_dump(include={"model", "preset"})
    if options.recipe and named:
        raise ConfigError(
            f"--{next(iter(named))}: the recipe {options.recipe} says this; leave one of the two out"
        )
    if not options.recipe and not options.preset:
        raise ConfigError("--preset: is missing, and says what is taught; name one, or a --recipe")
    return load_recipe(Path(options.recipe) if options.recipe else recipe_fields(**named), options.settings)


def _taught_table(taught: Taught) -> Table:
    """Valid rate of every stratum of every lesson before and after, with intervals."""
    table = plain_table("", "", "before", f"after {taught.steps} steps")
    table.title, table.caption = "Valid answers in %", "greedy; 95 % intervals; none of it was taught"
    for lesson, rates in taught.after.items():
        for stratum, rate in rates.items():
            before = taught.before.get(lesson, {}).get(stratum)
            table.add_row(lesson, stratum, narrow(before), narrow(rate))
    return table
