"""A comparison as a YAML file: the preset, the seeds, the arms and what each changes, the test set, and what
is tested first. The file is the registration of the comparison: its SHA-256 is kept before the first run."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from engineer.engineers.registry import engineer_label, known_engineers, reads_context, split_context
from engineer.spec import located
from envgen.errors import ConfigError, DataError, validated
from envgen.files import read_text
from envgen.frozen import Frozen
from envgen.seeds import Seed
from envgen.yaml_files import dump_yaml, read_yaml
from infra.config.dotted import leaves
from infra.config.preset import Preset, TestSpec, load_preset, shipped_presets
from infra.config.settings import Stem, checked_name

USUAL_BASELINES = ("fixed", "random")
_OF_ALL = ("seed", "name", "environment", "validation", "test", "stages", "approval", "evaluation")
"""Fields of a preset that an arm cannot change: all arms are judged alike, on the same instances."""
_BUDGETED = {"trl.max_steps", "training.max_tokens", "training.max_seconds"}
_MANY = 1000
"""Epochs of a stage that ends with its tokens or seconds."""
Settings = Annotated[
    dict[str, Any], BeforeValidator(lambda value: leaves(value) if isinstance(value, dict) else value)
]
"""Dotted field of a preset -> value; nested fields may be given too."""


class ArmSpec(Frozen):
    """What an arm changes."""

    engineer: str = ""
    """Its engineer, as `frontier`, or with its context, as `checkpoint:V1`; the path of a function starts
    from the folder of the file. Left out: the engineer that the arm is named after, else the preset's."""
    set: Settings = {}
    """Fields of the preset, as `--set` takes them."""

    @field_validator("engineer")
    @classmethod
    def _absolute(cls, engineer: str, info: ValidationInfo) -> str:
        return located(engineer, (info.context or {}).get("folder", Path()))


class Budget(Frozen):
    """What a curriculum of each arm may spend on training, in equal parts for its stages."""

    steps: int | None = Field(default=None, ge=1)
    """Optimizer steps."""
    tokens: int | None = Field(default=None, ge=1)
    """Generated tokens."""
    seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Seconds of training steps."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self.model_dump(exclude_none=True)) != 1:
            raise ValueError("give exactly one of steps, tokens and seconds")
        return self

    def settings(self, stages: int) -> dict[str, Any]:
        """Return the fields of a preset that hold a run of `stages` stages to the budget."""
        [(name, whole)] = self.model_dump(exclude_none=True).items()
        if name == "seconds":
            return {"training.max_seconds": whole / stages, "epochs": _MANY}
        if whole < stages or (name == "steps" and whole % stages):
            raise ConfigError(f"budget.{name}: {whole} cannot be shared by {stages} stages; give a multiple")
        if name == "tokens":
            return {"training.max_tokens": whole // stages, "epochs": _MANY}
        return {"trl.max_steps": whole // stages}


def _test(value: Any) -> Any:
    """The path of a file stands for the test set that it holds."""
    return {"file": value} if isinstance(value, str) else value


class ComparisonFile(Frozen):
    """All that decides a comparison."""

    name: Stem
    preset: str
    """A shipped preset, or the path of a YAML file, from the folder of this one."""
    seeds: tuple[Seed, ...] = Field(min_length=1)
    test: Annotated[TestSpec | None, BeforeValidator(_test)] = None
    """The test set; left out, the test set of the preset, else one as large as the validation set."""
    baselines: tuple[Stem, ...] = ()
    """Arms that the others are measured against; left out, `fixed` and `random` where they take part."""
    primary: str = ""
    """The arm whose valid rate against the first baseline is tested alone at 5 %."""
    set: Settings = {}
    """Fields of the preset that all arms change."""
    arms: Annotated[
        dict[Stem, Annotated[ArmSpec, BeforeValidator(lambda arm: arm or {})]], Field(min_length=1)
    ]
    budget: Budget | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if repeated := sorted(seed for seed, times in Counter(self.seeds).items() if times > 1):
            raise ValueError(f"seeds: {repeated[0]} is named twice; name each seed once")
        if self.name in shipped_presets():
            raise ValueError(f"name: {self.name!r} is the name of a shipped preset; choose another one")
        for field in _BUDGETED & {*self.set, *(field for arm in self.arms.values() for field in arm.set)}:
            if self.budget:
                raise ValueError(f"set.{field}: the budget sets it; leave out one of both")
        for field, label in (*(("baselines", base) for base in self.baselines), ("primary", self.primary)):
            if label and label not in self.arms:
                raise ValueError(f"{field}: {label!r} is no arm; known are {', '.join(self.arms)}")
        if self.primary and self.primary in self.baseline_arms[:1]:
            raise ValueError(f"primary: {self.primary!r} is the first baseline; name another arm")
        if self.primary and not self.baseline_arms:
            raise ValueError("primary: there is no baseline; name one under baselines")
        for label, arm in self.arms.items():
            if label.startswith("shared"):
                problem = "stages 0 have the names that begin with 'shared'; choose another"
                raise ValueError(f"arms.{label}: {problem}")
            if field := next((field for field in arm.set if field.split(".")[0] in _OF_ALL), ""):
                problem = "is the same for all arms; move it to 'set' beside them"
                raise ValueError(f"arms.{label}.set.{field}: {problem}")
        return self

    @property
    def baseline_arms(self) -> tuple[str, ...]:
        """The baselines, in order."""
        return self.baselines or tuple(label for label in USUAL_BASELINES if label in self.arms)

    @field_validator("preset")
    @classmethod
    def _path(cls, preset: str, info: ValidationInfo) -> str:
        folder = (info.context or {}).get("folder", Path())
        return str(folder / preset) if preset.endswith((".yaml", ".yml", ".json")) else preset

    def presets(self) -> tuple[Preset, dict[str, Preset]]:
        """Return what all arms share, and arm -> preset, with the first seed; ConfigError names the arm."""
        own = {} if self.test is None else {"test": self.test.model_dump(mode="json", exclude_defaults=True)}
        shared = {**own, **self.set, "seed": self.seeds[0]}
        for field in {"seed", "name"} & {*self.set}:
            raise ConfigError(f"--set {field}: a comparison sets it for each curriculum; use seeds")
        base = load_preset(self.preset, {**self.set, "seed": self.seeds[0]})
        if base.approval == "required":
            problem = "required asks a person before each stage, which a comparison cannot"
            raise ConfigError(f"approval: {problem}; use --set approval=none")
        if base.test is None and not own:
            shared["test"] = {}
        if self.budget:
            shared |= self.budget.settings(base.stages)
        base = load_preset(self.preset, shared)
        return base, {label: self._preset(label, base, shared) for label in self.arms}

    def _preset(self, label: str, base: Preset, shared: dict[str, Any]) -> Preset:
        arm, engineer = self.arms[label], dict[str, Any]()
        if named := arm.engineer or (label if label in known_engineers() else ""):
            name, context = split_context(named)
            if context and not reads_context(name):
                raise ConfigError(f"arms.{label}: {name!r} reads no context; write {name}")
            engineer |= {"engineer.name": name} | ({"engineer.context": context} if context else {})
            if name != base.engineer.name:
                options = [key for key in shared if key.startswith("engineer.options")]
                shared = {key: shared[key] for key in shared if key not in options}
                engineer["engineer.options"] = {}
        try:
            return load_preset(self.preset, {**shared, **engineer, **arm.set})
        except ConfigError as error:
            raise ConfigError(f"arms.{label}: {error}") from None


class Registration(Frozen):
    """The text of a comparison's file, and when it was kept."""

    text: str
    sha256: str
    at: str
    """UTC, ISO 8601."""
    finished: int
    """Curricula that were finished before."""


def read_comparison_file(path: Path) -> tuple[ComparisonFile, str]:
    """Return a comparison and the text of its file; ConfigError names file and field."""
    text = read_text(path)
    return validated(ComparisonFile, read_yaml(path), str(path), {"folder": path.parent}), text


def is_comparison_file(name: str) -> bool:
    """Whether a path names a YAML file that has arms, and so is no preset."""
    try:
        return name.endswith((".yaml", ".yml")) and "arms" in read_yaml(Path(name))
    except DataError:
        return False


def short_form(
    preset: str,
    engineers: Sequence[str],
    seeds: Sequence[int],
    settings: dict[str, Any] | None = None,
    name: str = "",
) -> tuple[ComparisonFile, str]:
    """Return the comparison of engineers such as `random` or `checkpoint:V1`, and the text of its file."""
    base, arms = load_preset(preset, settings), dict[str, Any]()
    for item in engineers:
        engineer, context = split_context(item)
        label = engineer_label(engineer, context or base.engineer.context)
        if label in arms:
            raise ConfigError(f"--engineers: {label} would be run twice; name each once")
        arms[label] = {} if item == label else {"engineer": item}
    name = checked_name(name or f"compare-{base.name}")
    fields: dict[str, Any] = {"name": name, "preset": preset, "seeds": [*seeds]}
    fields |= {**({"set": settings} if settings else {}), "arms": arms}
    return validated(ComparisonFile, fields, "comparison"), dump_yaml(fields)


def sha256(text: str) -> str:
    """Return the digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()
