"""What the flows take as parameters: forms that the Prefect UI can show, and the presets that they mean.

Only what is given overrides the preset: a field that is left out, or left empty in the form, keeps the
preset's value."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from engineer.context import VARIANTS
from engineer.engineers.registry import known_engineers
from engineer.gate import Gate
from engineer.spec import EngineerSpec
from envgen.errors import ConfigError
from envgen.frozen import Frozen
from envgen.seeds import Seed
from flows.forms import OptionsForm, field_of
from infra.analysis.benchmark.spec import BenchmarkSpec, planned
from infra.analysis.spec import ComparisonSpec, Stage0, plan, read_comparison
from infra.config.preset import Preset, load_preset, shipped_presets
from infra.config.settings import Settings, checked_name, is_name
from infra.runs.files import COMPARISON, CURRICULUM
from infra.runs.run import Run, default_name
from policy.chat.engine_config import EngineConfig
from policy.checkpoints import check_hub, check_model

PresetChoice = (
    Annotated[str, Field(title="Shipped preset", json_schema_extra={"enum": list(shipped_presets())})]
    | Annotated[str, Field(title="Path of a YAML file")]
)
"""The preset of a flow, which a form lets choose."""
AnyPreset = PresetChoice | Annotated[str, Field(title="All fields of a preset, as JSON", pattern=r"^\s*\{")]
"""That of a curriculum, which a comparison hands over whole: the file may lie on another machine."""
_FIELDS = {name: name for name in Preset.model_fields} | {
    "engineer": "engineer.name",
    "variant": "engineer.variant",
    "gate": "engineer.gate",
    "anchor_share": "engineer.anchor_share",
}
"""Option -> dotted field of the preset."""


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
    variant: str = field_of(EngineerSpec, "variant", enum=VARIANTS)
    gate: Gate = field_of(EngineerSpec, "gate")
    anchor_share: float = field_of(EngineerSpec, "anchor_share")
    seed: Seed = field_of(Preset, "seed")
    approval: Literal["none", "required"] = field_of(Preset, "approval")


AS_IN_PRESET = CurriculumOptions()


class ComparisonOptions(PresetOptions):
    """Which curricula a comparison consists of."""

    model_config = ConfigDict(title="Comparison")
    engineers: list[str] = Field(
        default=["checkpoint", "random", "fixed"],
        min_length=1,
        description="Engineers; one that reads a context may name its variant, as checkpoint:V1. Known are "
        f"{', '.join(known_engineers())}.",
    )
    seeds: list[Seed] = Field(default=[0, 1, 2], min_length=1)
    """One stage 0 for all is trained with the first of them."""
    stage_0: Stage0 = "one"
    """One for all seeds, or one for each seed, which its curricula share."""
    variants: list[Annotated[str, Field(json_schema_extra={"enum": list(VARIANTS)})]] = Field(
        default_factory=list, title="Context variants"
    )
    """For every engineer that reads a context. Empty: the preset's."""
    registration: str = ""
    """A text file that says what is expected, on the machine that runs it. A comparison is not continued
    under another text."""


USUAL_COMPARISON = ComparisonOptions()


class Membership(Frozen):
    """The comparison that a curriculum is part of."""

    folder: str = Field(title="Folder", description="Of the comparison, in the folder of runs.")
    root: str = Field(
        default="", title="Shared stage 0", description="The run there whose stage 0 this one starts from."
    )

    def directory(self, name: str) -> Path:
        """The directory of a run of the comparison; ConfigError if it cannot have this name."""
        return Settings().runs / checked_name(self.folder, "comparison.folder") / checked_name(name)


Jobs = Annotated[int, Field(ge=1, le=64)]


def chosen_curriculum(preset: AnyPreset, name: str, options: CurriculumOptions) -> tuple[Preset, str]:
    """Return the preset and the name of a curriculum; the name of a run stands for its preset.

    ConfigError or ModelError says what is wrong.
    """
    _check_free(name)
    if stored := _stored_preset(preset):
        preset, name = stored, name or preset
    resolved = load_preset(preset, options.overrides)
    check_model(resolved.model)
    return resolved, name or default_name(resolved)


def _is_directory_name(preset: str) -> bool:
    return is_name(preset) and preset not in shipped_presets()


def _stored_preset(name: str) -> str:
    """Return the preset of a run, as JSON; empty if no run has this name."""
    run = Run(directory=Settings().runs / name)
    if _is_directory_name(name) and run.has(CURRICULUM):
        return run.read(CURRICULUM).preset.model_dump_json()
    return ""


def _check_free(name: str) -> None:
    """ConfigError for the name of a shipped preset: commands would take the run for the preset."""
    if name in shipped_presets():
        raise ConfigError(f"--name {name}: is the name of a shipped preset; choose another one")


def chosen_comparison(preset: str, name: str, options: ComparisonOptions) -> ComparisonSpec:
    """Return the comparison that is asked for, every curriculum of it checked.

    The name of a comparison stands for all of it, the name of a run for its preset. ConfigError or ModelError
    says what is wrong."""
    _check_free(name)
    directory = Settings().runs / preset
    if _is_directory_name(preset) and (directory / COMPARISON).exists():
        if name or options.model_fields_set:
            raise ConfigError(
                f"{preset}: a comparison that is continued by its name takes no options; name its preset to"
                " add engineers, seeds or stages"
            )
        return read_comparison(directory)
    preset = _stored_preset(preset) or preset
    own = options.model_dump(include={"variants", "stage_0", "registration"})
    spec = plan(preset, options.engineers, options.seeds, name=name, settings=options.overrides, **own)
    check_model(spec.preset.model)
    return spec


class BenchmarkOptions(OptionsForm, EngineConfig):
    """How a model is asked; an endpoint runs its own engine."""

    model_config = ConfigDict(title="Benchmark")
    style: str | None = None
    """Prompt style, as compact, in which the tiny policy was taught; left out, the context of a checkpoint
    decides."""
    answer_tokens: int | None = Field(default=None, ge=8, le=100_000)
    """Longest answer: 8,192, or 128 in the compact style, if left out."""
    limit: int | None = Field(default=None, ge=1, le=1_000_000)
    """Largest number of instances of each group; all if left out."""


USUAL_BENCHMARK = BenchmarkOptions()


def chosen_benchmark(model: str, data: str, options: BenchmarkOptions) -> BenchmarkSpec:
    """The benchmark that is asked for; ConfigError or ModelError says what is wrong."""
    chosen = {name: value for name, value in options.model_dump().items() if value is not None}
    engine = {name: chosen.pop(name) for name in EngineConfig.model_fields if name in chosen}
    spec = planned(BenchmarkSpec(model=model, data=data, engine=EngineConfig(**engine), **chosen))
    if not spec.endpoint:
        check_model(spec.model)
        check_hub(spec.model)
    return spec
