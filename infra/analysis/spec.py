"""Which curricula a comparison consists of; `comparison.json` in its directory.

Every arm is run with every seed, as a curriculum of its own. In `envwright compare` an arm is an engineer
variant, an engineer with a context variant, and all curricula start from one shared stage 0, unless each seed
is to have its own.
"""

import difflib
import shlex
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from engineer.context import VARIANTS
from engineer.engineers.registry import find_engineer, resolve
from engineer.spec import EngineerSpec
from envgen.errors import ConfigError, RunDirectoryError, describe_validation_error
from envgen.files import file_digest, is_unused, read_model, write_json
from envgen.frozen import Frozen
from infra.config.preset import Preset, load_preset
from infra.config.written import overrides, preset_source
from infra.runs.run import FREE_FIELDS, changed_fields

SPEC_FILE = "comparison.json"
SHARED = "shared"
"""Stage 0 where all seeds share one; `shared-sSEED` is the stage 0 of a seed."""
Stage0 = Literal["one", "per-seed"]
"""`one`: all seeds go on from one stage 0, so that an engineer that draws nothing makes the same first
decision for all of them. `per-seed`: each seed has a stage 0 of its own, which its arms share."""


class Arm(Frozen):
    """What the curricula of an arm have of their own."""

    engineer: str
    variant: str
    reads: bool = False
    """Whether the engineer reads the context in words, so that the context variant matters."""

    @property
    def label(self) -> str:
        """`checkpoint-V6` if the engineer reads, `random` if not; part of file names."""
        return f"{self.engineer}-{self.variant}" if self.reads else self.engineer


class ComparisonSpec(Frozen):
    """A comparison: the preset that all curricula share, the arms and the seeds."""

    name: str
    preset: Preset
    """Its seed is that of a stage 0 that all share; an arm with its engineer has its options too."""
    arms: tuple[Arm, ...] = Field(min_length=1)
    seeds: tuple[int, ...] = Field(min_length=1)
    stage_0: Stage0 = "one"
    registration: dict[str, Any] = {}
    """What was fixed before anything was run; a comparison is not continued under another one."""

    @property
    def children(self) -> list["Child"]:
        """Every arm with every seed, one seed after the other, so that a cut-off comparison is a fair one."""
        return [Child(arm=arm, seed=seed) for seed in self.seeds for arm in self.arms]

    def preset_of(self, child: "Child") -> Preset:
        """The preset of a child's curriculum; ConfigError if its engineer refuses it."""
        arm, root = child.arm, self.preset.seed if self.stage_0 == "one" else child.seed
        preset = _designed(self.preset, arm.engineer, arm.variant, self.preset.stages)
        return preset.model_copy(update={"seed": child.seed, "stage0_seed": root})

    def root(self, seed: int) -> str:
        """The run directory whose stage 0 a seed goes on from."""
        return SHARED if self.stage_0 == "one" else f"{SHARED}-s{seed}"

    @property
    def roots(self) -> dict[str, Preset]:
        """Run directory of a shared stage 0 -> its preset: that stage only, without a gate."""
        preset = _designed(self.preset, "fixed", self.preset.engineer.variant, 1)
        fixed = preset.engineer.model_copy(update={"gate": "off"})
        seeds = [self.preset.seed] if self.stage_0 == "one" else self.seeds
        return {
            self.root(seed): preset.model_copy(update={"engineer": fixed, "seed": seed, "stage0_seed": seed})
            for seed in seeds
        }


def _designed(preset: Preset, engineer: str, variant: str, stages: int) -> Preset:
    """A preset with another engineer, which keeps the options if it is the same one."""
    options = preset.engineer.options if engineer == preset.engineer.name else {}
    spec = preset.engineer.model_copy(update={"name": engineer, "variant": variant, "options": options})
    return preset.model_copy(update={"engineer": resolve(spec, preset.space, stages), "stages": stages})


class Child(Frozen):
    """One curriculum of a comparison."""

    arm: Arm
    seed: int

    @property
    def name(self) -> str:
        """Name of its run directory, which its answers are kept under."""
        return f"{self.arm.label}-s{self.seed}"

    @property
    def title(self) -> str:
        """What it is called in logs."""
        return f"{self.arm.label} · seed {self.seed}"


def plan(
    preset: str,
    engineers: str,
    seeds: str,
    *,
    variants: str | None = None,
    stages: int | None = None,
    settings: Mapping[str, Any] | None = None,
    name: str | None = None,
    stage_0: Stage0 = "one",
    registration: Path | None = None,
) -> ComparisonSpec:
    """Return the comparison that a command line asks for, all curricula checked; ConfigError otherwise.

    `registration` is a text file, whose digest is kept."""
    overrides = dict(settings or {}) | ({} if stages is None else {"stages": stages})
    for field in {"seed", "stage0_seed"} & set(overrides):
        raise ConfigError(f"--set {field}: a comparison sets it for each curriculum; use --seeds")
    numbers = given_seeds(seeds)
    base = load_preset(preset, overrides | {"seed": numbers[0]})
    if base.approval == "required":
        raise ConfigError(
            f"approval: {base.approval} asks a person before each stage, which a comparison cannot; "
            "use --set approval=none"
        )
    if registration and not registration.is_file():
        expected = "expected a text that says what is expected"
        raise ConfigError(f"--registration {registration}: no such file; {expected}")
    held = {"file": str(registration), "sha256": file_digest(registration)} if registration else {}
    spec = ComparisonSpec(
        name=name or f"compare-{base.name}",
        preset=base,
        arms=tuple(_arms(engineers, variants, base.engineer.variant)),
        seeds=tuple(numbers),
        stage_0=stage_0,
        registration=held,
    )
    _check(spec)
    return spec


def _check(spec: ComparisonSpec) -> None:
    """Refuse a comparison of which a curriculum is not possible; ConfigError."""
    for child in spec.children:
        try:
            Preset.model_validate(spec.preset_of(child).model_dump(mode="json"))
        except ValidationError as error:
            raise ConfigError(describe_validation_error(error, child.name)) from None


def open_comparison(directory: Path, wanted: ComparisonSpec) -> ComparisonSpec:
    """Claim a new directory for a comparison, or extend an existing one; return all that it then holds.

    Arms, seeds and stages may be added. RunDirectoryError names the fields of the preset that differ.
    """
    path = directory / SPEC_FILE
    if not path.exists():
        if not is_unused(directory):
            raise RunDirectoryError(
                f"{directory} exists and is no comparison ({SPEC_FILE} is missing); give the comparison "
                "another --name"
            )
        write_json(path, wanted)
        return wanted
    stored = read_comparison(directory)
    if changed := changed_fields(stored.preset, wanted.preset, FREE_FIELDS | {"seed"}):
        raise RunDirectoryError(
            f"{directory} compares under another preset ({changed}). Ways out: give this comparison its own "
            "name with --name, go back to those settings, or move the directory away. Engineers, seeds and "
            "stages may be added"
        )
    differs = {
        "stage_0": stored.stage_0 != wanted.stage_0,
        "registration": stored.registration.get("sha256") != wanted.registration.get("sha256"),
    }
    if any(differs.values()):
        fields = ", ".join(field for field, changed in differs.items() if changed)
        raise RunDirectoryError(
            f"{path}: was begun with another {fields}; go back to that, or begin a new one with its own name "
            "and seeds"
        )
    stages = max(stored.preset.stages, wanted.preset.stages)
    merged = {
        "preset": stored.preset.model_copy(update={"stages": stages}),
        "arms": tuple({arm.label: arm for arm in (*stored.arms, *wanted.arms)}.values()),
        "seeds": tuple(dict.fromkeys([*stored.seeds, *wanted.seeds])),
    }
    whole = stored.model_copy(update=merged)
    _check(whole)
    if whole != stored:
        write_json(path, whole)
    return whole


def read_comparison(directory: Path) -> ComparisonSpec:
    """The spec of an existing comparison; RunDirectoryError if there is none."""
    missing = f"{directory}: no comparison there ({SPEC_FILE} is missing)"
    return read_model(directory / SPEC_FILE, ComparisonSpec, missing, "move the directory away")


def compare_command(spec: ComparisonSpec) -> str:
    """`envwright compare` of these arms and seeds; a preset that is not shipped is named as `envwright init`
    writes it."""
    preset = spec.preset
    arms = [f"{arm.engineer}:{arm.variant}" if arm.reads else arm.engineer for arm in spec.arms]
    options = ["--engineers", ",".join(arms), "--seeds", ",".join(map(str, spec.seeds))]
    options += ["--stages", str(preset.stages), "--stage-0", spec.stage_0]
    options += [part for setting in overrides(preset) for part in ("--set", setting)]
    options += ["--registration", spec.registration["file"]] if "file" in spec.registration else []
    options += ["--name", spec.name] if spec.name != f"compare-{preset.name}" else []
    return shlex.join(["envwright", "compare", preset_source(preset), *options])


def _arm(engineer: str, variant: str) -> Arm:
    entry = find_engineer(engineer)
    return Arm(engineer=engineer, variant=variant, reads=entry.asks is not None or entry.reads_context)


def engineer_variant(spec: EngineerSpec) -> str:
    """Return how comparisons, MLflow and Prefect name an engineer with its context variant:
    `checkpoint-V6`, or `random` if it reads none."""
    return _arm(spec.name, spec.variant).label


def _arms(engineers: str, variants: str | None, default: str) -> list[Arm]:
    for_all = [default] if variants is None else _items(variants, "--variants")
    arms: list[Arm] = []
    for item in _items(engineers, "--engineers"):
        engineer, colon, variant = item.partition(":")
        reads = _arm(engineer, default).reads
        if colon and not reads:
            raise ConfigError(
                f"--engineers {item}: {engineer!r} reads no context, so that a variant changes nothing; "
                f"write {engineer}"
            )
        arms += [_arm(engineer, name) for name in ([variant] if colon else for_all if reads else [default])]
    for arm in arms:
        if arm.variant not in VARIANTS:
            near = difflib.get_close_matches(arm.variant.upper(), VARIANTS, n=1, cutoff=0.3)
            hint = f"did you mean {near[0]}? " if near else ""
            known = ", ".join(VARIANTS)
            raise ConfigError(f"there is no context variant {arm.variant!r}; {hint}known are {known}")
    if repeated := sorted(label for label, count in Counter(arm.label for arm in arms).items() if count > 1):
        raise ConfigError(f"--engineers: {', '.join(repeated)} would be run twice; name each once")
    return arms


def given_seeds(text: str) -> list[int]:
    """The seeds that `--seeds` names; ConfigError for what is none, or named twice."""
    items = _items(text, "--seeds")
    for item in items:
        if not (item.isascii() and item.isdecimal()):
            raise ConfigError(f"--seeds: {item!r} is no seed; expected whole numbers from 0, as 0,1,2")
    numbers = list(map(int, items))
    if len(set(numbers)) < len(numbers):
        raise ConfigError(f"--seeds {text}: a seed is named twice; name each once")
    return numbers


def _items(text: str, option: str) -> list[str]:
    items = [item.strip() for item in text.split(",")]
    if not all(items):
        raise ConfigError(f"{option} {text!r}: expected names with single commas between them")
    return items
