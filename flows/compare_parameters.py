"""What a comparison takes as parameters, and the curricula that it then consists of."""

from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field

from engineer.engineers.registry import known_engineers
from envgen.errors import ConfigError
from envgen.seeds import Seed
from flows.parameters import PresetOptions, check_free, is_directory_name, stored_preset
from infra.comparison.file import is_comparison_file, read_comparison_file, short_form
from infra.comparison.spec import ComparisonSpec, read_comparison, resolve_comparison
from infra.config.settings import Settings
from infra.runs.files import COMPARISON
from policy.checkpoints import check_model


class ComparisonOptions(PresetOptions):
    """Which curricula a comparison of a preset consists of; a comparison file says it itself."""

    model_config = ConfigDict(title="Comparison")
    engineers: list[str] = Field(
        default=["checkpoint", "random", "fixed"],
        min_length=1,
        description="Engineers; one that reads a context may name its context, as checkpoint:V1, and has the "
        "preset's if it names none. Known are "
        f"{', '.join(known_engineers())}.",
    )
    seeds: list[Seed] = Field(default=[0, 1, 2], min_length=1)
    """Seeds of all engineers; those that train stage 0 alike share it."""


USUAL_COMPARISON = ComparisonOptions()
Jobs = Annotated[int, Field(ge=1, le=64)]


def chosen_comparison(source: str, name: str, options: ComparisonOptions) -> tuple[ComparisonSpec, str]:
    """Return the comparison that is asked for, every curriculum of it checked, and the text of its file.

    The name of a comparison stands for all of it, the name of a run for its preset. ConfigError or ModelError
    says what is wrong."""
    check_free(name)
    directory = Settings().runs / source
    if is_directory_name(source) and (directory / COMPARISON).exists():
        _check_alone(source, name, options, "a comparison that is continued by its name", source)
        spec = read_comparison(directory)
        return spec, spec.registrations[-1].text
    if is_comparison_file(source):
        _check_alone(source, name, options, "a comparison file", "")
        file, text = read_comparison_file(Path(source))
    else:
        preset = stored_preset(source) or source
        file, text = short_form(preset, options.engineers, options.seeds, options.overrides, name)
    spec = resolve_comparison(file)
    for preset in spec.presets.values():
        check_model(preset.model)
    return spec, text


def _check_alone(source: str, name: str, options: ComparisonOptions, kind: str, own: str) -> None:
    if name not in ("", own) or options.model_fields_set:
        raise ConfigError(
            f"{source}: {kind} takes no options; write them into the file, or name its preset to add"
            " engineers or seeds"
        )
