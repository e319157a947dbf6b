"""Recipes of base policies: a YAML file, or what the options of `envwright warmstart` say."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from envgen.config import SHARE
from envgen.errors import ConfigError, describe_validation_error
from envgen.yaml_files import read_yaml
from infra.config.dotted import set_field
from infra.config.preset import load_preset
from policy.tiny.spec import CHAT, RECIPE, BootstrapRecipe


def load_recipe(
    path: Path | None, overrides: dict[str, Any], fields: dict[str, Any] | None = None
) -> BootstrapRecipe:
    """The recipe of these `fields`, else of a file, else the shipped one, with dotted overrides.

    ConfigError names file and field.
    """
    file, folder = path or RECIPE, path.parent if path else Path()
    raw, where = (dict(fields), "recipe") if fields else (read_yaml(file), str(file))
    for key, value in overrides.items():
        set_field(raw, key, value)
    if raw.get("model") is not None:
        raw = {**read_yaml(CHAT), **raw}
    try:
        recipe = BootstrapRecipe.model_validate(raw, context={"folder": folder})
    except ValidationError as error:
        raise ConfigError(describe_validation_error(error, where)) from None
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    # Presets that are paths start from the folder of the recipe, as files of environments do.
    here = [str(folder / name) if name.endswith((".yaml", ".yml")) else name for name in recipe.presets]
    return recipe.model_copy(update={"presets": tuple(here)})


def warm_start(preset: str, model: str = "") -> dict[str, Any]:
    """Return the recipe, as YAML has it, that teaches a chat model, of the preset or another one, what the
    preset begins with: the mixture is its default config."""
    resolved = load_preset(preset)
    strata = {
        stratum: {SHARE: part.data_ratio, **part.knobs}
        for stratum, part in resolved.default_config.strata.items()
        if part.data_ratio
    }
    lesson = {
        "name": resolved.name,
        "environment": resolved.environment.model_dump(mode="json"),
        "prompt_style": resolved.prompt_style,
        "taught": {"strata": strata},
    }
    return {
        "model": model or resolved.model,
        "presets": [preset],
        "lessons": [lesson],
        "longest_answer": resolved.max_answer_tokens,
    }
