"""Recipes of warm starts: a YAML file, or what the options of `envwright warmstart` say."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from envgen.errors import ConfigError, describe_validation_error
from envgen.yaml_files import read_yaml
from infra.config.dotted import set_field
from infra.config.preset import load_preset
from policy.warm_start import WarmStartRecipe


def load_recipe(source: Path | dict[str, Any], overrides: dict[str, Any]) -> WarmStartRecipe:
    """The recipe of a YAML file, or of these fields, with dotted overrides; ConfigError names file and
    field."""
    is_file = isinstance(source, Path)
    raw, where = (read_yaml(source), str(source)) if is_file else (dict(source), "recipe")
    folder = source.parent if is_file else Path()
    for key, value in overrides.items():
        set_field(raw, key, value)
    try:
        recipe = WarmStartRecipe.model_validate(raw, context={"folder": folder})
    except ValidationError as error:
        raise ConfigError(describe_validation_error(error, where)) from None
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    # Presets that are paths start from the folder of the recipe, as files of environments do.
    here = [str(folder / name) if name.endswith((".yaml", ".yml")) else name for name in recipe.presets]
    return recipe.model_copy(update={"presets": tuple(here)})


def recipe_fields(preset: str, model: str = "") -> dict[str, Any]:
    """Return the recipe, as YAML has it, that teaches a chat model, of the preset or another one, what the
    preset begins with: questions follow its default config."""
    resolved = load_preset(preset)
    lesson = {
        "name": resolved.name,
        "environment": resolved.environment.model_dump(mode="json"),
        "prompt_style": resolved.prompt_style,
        "config": resolved.default_config.model_dump(mode="json"),
    }
    return {
        "model": model or resolved.model,
        "presets": [preset],
        "lessons": [lesson],
        "longest_answer": resolved.max_answer_tokens,
    }
