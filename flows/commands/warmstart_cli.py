"""`envwright warmstart`: teach a chat model an environment before reinforcement learning."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from envgen.errors import ConfigError, validated
from envgen.terminal import console, say
from flows.commands.terminal import JSON, plain_table, print_json, show_log
from infra.config.dotted import parse_override, set_field
from infra.config.preset import load_preset
from infra.formats import narrow
from policy.checkpoints import check_hub, check_model
from policy.grpo.check import CheckSpec, plan_training
from policy.warm_start import Taught, WarmStartRecipe


def warmstart(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="New base policy; OUTPUT-work beside it holds checkpoints.")
    ],
    preset: Annotated[
        str, typer.Option(help="Preset that the policy is for: environment, prompt style, config and model.")
    ],
    model: Annotated[
        str, typer.Option(help="Chat model to teach instead of the preset's: a hub id or a folder.")
    ] = "",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any field of the recipe, as steps=150; may be repeated."),
    ] = None,
    json_: JSON = False,
) -> None:
    """Warm-start a chat model from an environment's reference answers.

    The same command continues one that was cut off.

    Example: `envwright warmstart -o warm --preset smollm2-135m`
    """
    fields: dict[str, Any] = {}
    for text in set_ or []:
        set_field(fields, *parse_override(text))
    recipe = validated(WarmStartRecipe, fields, "--set")
    chosen = load_preset(preset, {"model": model} if model else {})
    if output.exists():
        raise ConfigError(f"{output}: exists already; choose another -o, or remove it")
    check_model(chosen.model)
    check_hub(chosen.model)
    if recipe.lora is not None:
        plan_training(CheckSpec(trl={}, lora=recipe.lora, instances=1))
    from tasks.warm_start import warm_start

    show_log()
    taught = warm_start(output, chosen, recipe)
    if json_:
        print_json(taught)
    else:
        console.print(_taught_table(taught))
    say(f"base policy: {output}")


def _taught_table(taught: Taught) -> Table:
    """Valid rate of every stratum before and after, with intervals."""
    table = plain_table("", "before", f"after {taught.steps} steps")
    table.title, table.caption = "Valid answers in %", "greedy; 95 % intervals; none of it was taught"
    for stratum, rate in taught.after.items():
        table.add_row(stratum, narrow(taught.before[stratum]), narrow(rate))
    return table
