"""What curricula and comparisons take as parameters: forms that the Prefect UI can show, and what they mean.
A field that is left out, or left empty in the form, keeps the preset's value."""

from collections.abc import Iterable
from copy import copy
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer
from pydantic.fields import FieldInfo

from engineer.engineers.registry import known_engineers
from engineer.gate import Gate
from engineer.spec import EngineerSpec
from envgen.errors import ConfigError
from envgen.frozen import Frozen
from envgen.seeds import Seed
from infra.comparison.file import is_comparison_file, read_comparison_file, short_form
from infra.comparison.spec import ComparisonSpec, read_comparison, resolve_comparison
from infra.config.preset import Preset, load_preset, shipped_presets
from infra.config.settings import Settings, checked_name, is_name
from infra.runs.files import COMPARISON, CURRICULUM
from infra.runs.run import Run, default_name
from policy.checkpoints import check_model

PresetChoice = (
    Annotated[str, Field(title="Shipped preset", json_schema_extra={"enum": list(shipped_presets())})]
    | Annotated[str, Field(title="Path of a YAML file")]
)
"""The preset of a flow, which a form lets choose."""
AnyPreset = PresetChoice | Annotated[str, Field(title="All fields of a preset, as JSON", pattern=r"^\s*\{")]
"""That of a curriculum, which a comparison hands over whole: the file may lie on another machine."""
_FIELDS = {name: name for name in Preset.model_fields} | {
    "engineer": "engineer.name",
    "context": "engineer.context",
    "gate": "engineer.gate",
}
"""Option -> dotted field of the preset."""


def _without_defaults(schema: dict[str, Any]) -> None:
    """Leave the fields of a form empty: the UI would send the defaults that it shows."""
    for field in schema["properties"].values():
        field.pop("default", None)


class OptionsForm(Frozen):
    """Options that override a preset where they are given; a form shows no defaults."""

    model_config = ConfigDict(json_schema_extra=_without_defaults, use_attribute_docstrings=True)

    @model_serializer(mode="wrap")
    def _given(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Only the fields that were set: a retried flow run overrides the same."""
        return {name: value for name, value in serialize(self).items() if name in self.model_fields_set}


def field_of(model: type[BaseModel], name: str, enum: Iterable[str] = ()) -> Any:
    """Return the field of another model, with its bounds and description, as a field of a form, which lets
    choose among the names in `enum`, and takes others. The default None stands for no value."""
    field = copy(model.model_fields[name])
    extra = {"enum": [*enum]} if enum else None
    return FieldInfo.merge_field_infos(field, default=None, json_schema_extra=extra)


class PresetOptions(OptionsForm):
    """Fields of a preset that curricula and comparisons can change."""

    model: str = field_of(Preset, "model")
    stages: int = field_of(Preset, "stages")
    instances: int = field_of(Preset, "instances")
    epochs: float = field_of(Preset, "epochs")
    prompt_style: str = field_of(Preset, "prompt_style")
    max_answer_tokens: int = field_of(Preset, "max_answer_tokens")
    settings: dict[str, Any] = Field(default_factory=dict, title="Other settings")
    """Any other field of the preset by its dotted name, as trl.learning_rate=1e-4."""

    @property
    def overrides(self) -> dict[str, Any]:
        """Dotted field of the preset -> value, of the given options."""
        fields = self.model_dump(include=set(_FIELDS))
        return {_FIELDS[name]: value for name, value in fields.items()} | self.settings


class CurriculumOptions(PresetOptions):
    """What a curriculum changes in its preset."""

    model_config = ConfigDict(title="Curriculum")
    engineer: str = field_of(EngineerSpec, "name", enum=known_engineers())
    context: str = field_of(EngineerSpec, "context")
    gate: Gate = field_of(EngineerSpec, "gate")
    seed: Seed = field_of(Preset, "seed")
    approval: Literal["none", "required"] = field_of(Preset, "approval")


AS_IN_PRESET = CurriculumOptions()


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


class Membership(Frozen):
    """The comparison that a curriculum is part of."""

    folder: str = Field(title="Folder", description="Of the comparison, in the folder of runs.")
    root: str = Field(
        default="", title="Shared stage 0", description="The run there whose stage 0 this one starts from."
    )

    def directory(self, name: str) -> Path:
        """The directory of a run of the comparison; ConfigError if it cannot have this name."""
        return Settings().runs / checked_name(self.folder, "comparison.folder") / checked_name(name)


def chosen_curriculum(preset: AnyPreset, name: str, options: CurriculumOptions) -> tuple[Preset, str]:
    """Return the preset and the name of a curriculum; the name of a run stands for its preset. ConfigError or
    ModelError says what is wrong."""
    check_free(name)
    if stored := stored_preset(preset):
        preset, name = stored, name or preset
    resolved = load_preset(preset, options.overrides)
    check_model(resolved.model)
    return resolved, name or default_name(resolved)


def chosen_comparison(source: str, name: str, options: ComparisonOptions) -> tuple[ComparisonSpec, str]:
    """Return a comparison, every curriculum of it checked, and the text of its file. The name of a comparison
    stands for all of it, the name of a run for its preset. ConfigError or ModelError says what is wrong."""
    check_free(name)
    directory = Settings().runs / source
    if is_directory_name(source) and (directory / COMPARISON).exists():
        _check_alone(source, name, options, "a comparison that is continued by its name", source)
        spec = read_comparison(directory)
        return spec, spec.registrations[-1].text
    if is_comparison_file(source):
        file, text = read_comparison_file(Path(source))
        _check_alone(source, name, options, "a comparison file", file.name)
    else:
        preset = stored_preset(source) or source
        file, text = short_form(preset, options.engineers, options.seeds, options.overrides, name)
    spec = resolve_comparison(file)
    for preset in spec.presets.values():
        check_model(preset.model)
    return spec, text


def _check_alone(source: str, name: str, options: ComparisonOptions, kind: str, own: str) -> None:
    if name not in ("", own) or options.model_fields_set:
        remedy = "write them into the file, or name its preset to add engineers or seeds"
        raise ConfigError(f"{source}: {kind} takes no options; {remedy}")


def is_directory_name(preset: str) -> bool:
    """Whether a preset is named as a run or a comparison can be, and no shipped one."""
    return is_name(preset) and preset not in shipped_presets()


def stored_preset(name: str) -> str:
    """Return the preset of a run, as JSON; empty if no run has this name."""
    run = Run(directory=Settings().runs / name)
    if not is_directory_name(name) or not run.has(CURRICULUM):
        return ""
    engineer = run.preset.engineer.model_copy(update={"sha256": ""})  # the function may have changed
    return run.preset.model_copy(update={"engineer": engineer}).model_dump_json()


def check_free(name: str) -> None:
    """ConfigError for the name of a shipped preset: commands would take the run for the preset."""
    if name in shipped_presets():
        raise ConfigError(f"--name {name}: is the name of a shipped preset; choose another one")
