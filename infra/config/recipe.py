"""Recipes of base policies: a YAML file, or what the options of `envwright warmstart` say."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from envgen.config import SHARE
from envgen.errors import ConfigError, describe_validation_error
from envgen.registry import DEFAULT, ENVIRONMENTS, EnvironmentSpec
from envgen.yaml_files import read_yaml
from infra.config.dotted import set_field
from infra.config.preset import load_preset, preset_path, shipped_presets
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


def warm_start(
    model: str | None = None,
    environment: str | None = None,
    style: str | None = None,
    preset: str | None = None,
) -> dict[str, Any]:
    """The recipe, as YAML has it, that teaches a chat model an environment, or what a preset begins with.

    ConfigError names the option that is missing, contradicts another one, or is not known.
    """
    if preset is not None and environment is not None:
        raise ConfigError(
            f"--environment {environment}: the preset {preset} says the environment; leave one of the two out"
        )
    if preset is not None:
        return _of_preset(preset, model, style)
    if model is None:
        raise ConfigError(
            "--model: missing; name the chat model to teach (a hub id or folder), or a --preset that has one"
        )
    ENVIRONMENTS.load(environment or DEFAULT)
    spec = EnvironmentSpec(name=environment or DEFAULT).resolved()
    space = spec.load().space
    middle = {"knobs": {knob.name: (knob.low + knob.high) / 2 for knob in space.knobs}}
    # Presets as they are written: an environment may need a package that is not installed.
    written = {name: read_yaml(preset_path(name)).get("environment", {}) for name in shipped_presets()}
    named = [name for name, fields in written.items() if fields.get("name", DEFAULT) == spec.name]
    return {"model": model, "presets": named, "lessons": [_lesson(spec.name, spec, style, middle)]}


def _of_preset(name: str, model: str | None, style: str | None) -> dict[str, Any]:
    """The mixture is the preset's first config."""
    preset = load_preset(name)
    strata = {
        stratum: {SHARE: part.data_ratio, **part.knobs}
        for stratum, part in preset.default_config.strata.items()
        if part.data_ratio
    }
    lesson = _lesson(preset.name, preset.environment, style or preset.prompt_style, {"strata": strata})
    return {
        "model": model or preset.model,
        "presets": [name],
        "lessons": [lesson],
        "longest_answer": preset.max_answer_tokens,
    }


def _lesson(
    name: str, environment: EnvironmentSpec, style: str | None, mixture: dict[str, Any]
) -> dict[str, Any]:
    styles = environment.load().styles
    if style is not None and style not in styles:
        raise ConfigError(f"--style {style}: {environment.name} has {', '.join(styles)}; choose one of them")
    return {
        "name": name,
        "environment": environment.model_dump(mode="json"),
        "prompt_style": style or "",
        "taught": mixture,
    }
