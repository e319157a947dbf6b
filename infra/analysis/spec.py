"""Which curricula a comparison consists of; `comparison.json` in its directory.

Every arm is run with every seed, as a curriculum of its own. In `envwright compare` an arm is an engineer
variant, an engineer with a context variant, and all curricula start from one shared stage 0, unless each seed
is to have its own.
"""

import difflib
import shlex
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
from infra.config.overrides import overrides, preset_source
from infra.config.preset import Preset, load_preset, resolved_json
from infra.runs.run import FREE_FIELDS, changed_fields

SPEC_FILE = "comparison.json"
SHARED = "shared"
"""The base policy, and stage 0 where all seeds share one; `shared-sSEED` is the stage 0 of a seed."""
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
        return shared_policy(0, self.stage_0, seed)

    @property
    def roots(self) -> dict[str, Preset]:
        """Run directory of a shared stage 0 -> its preset: that stage only, without a gate."""
        preset = _designed(self.preset, "fixed", self.preset.engineer.variant, 1)
        plain = preset.engineer.model_copy(update={"gate": "off"})
        seeds = [self.preset.seed] if self.stage_0 == "one" else self.seeds
        own = [
            preset.model_copy(update={"engineer": plain, "seed": seed, "stage0_seed": seed}) for seed in seeds
        ]
        return {self.root(one.seed): one for one in own}


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


def shared_policy(stage: int, stage_0: Stage0, seed: int) -> str:
    """The name of the base policy (-1), or of the stage 0 from which a seed goes on."""
    return SHARED if stage < 0 or stage_0 == "one" else f"{SHARED}-s{seed}"


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
    """The comparison that a command line asks for, all curricula checked; ConfigError says what is wrong.

    Of the registration, a text file, the digest is kept."""
    overrides = dict(settings or {})
    for field in {"seed", "stage0_seed"} & set(overrides):
        raise ConfigError(f"--set {field}: a comparison sets it for each curriculum; use --seeds")
    if stages is not None:
        overrides["stages"] = stages
    numbers = given_seeds(seeds)
    base = load_preset(preset, overrides | {"seed": numbers[0]})
    if base.approval == "required":
        raise ConfigError(
            f"approval: {base.approval} asks a person before each stage, which a comparison cannot; "
            "use --set approval=none"
        )
    arms = tuple(_engineers(engineers, variants, base.engineer.variant))
    spec = ComparisonSpec(
        name=name or f"compare-{base.name}",
        preset=base,
        arms=arms,
        seeds=tuple(numbers),
        stage_0=stage_0,
        registration=_registered(registration) if registration else {},
    )
    check(spec)
    return spec


def _registered(path: Path) -> dict[str, str]:
    if not path.is_file():
        raise ConfigError(f"--registration {path}: no such file; expected a text that says what is expected")
    return {"file": str(path), "sha256": file_digest(path)}


def check(spec: ComparisonSpec) -> None:
    """Every curriculum of the comparison is possible; ConfigError otherwise."""
    for child in spec.children:
        try:
            Preset.model_validate(resolved_json(spec.preset_of(child)))
        except ValidationError as error:
            raise ConfigError(describe_validation_error(error, child.name)) from None


def open_comparison(directory: Path, wanted: ComparisonSpec) -> ComparisonSpec:
    """Claim a new directory for a comparison, or extend the one that is there; the spec with all that it
    now holds.

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
    found = read_comparison(directory)
    changed = changed_fields(found.preset, wanted.preset, FREE_FIELDS | {"seed"})
    if changed:
        raise RunDirectoryError(
            f"{directory} compares under another preset ({changed}). Ways out: give this comparison its own "
            "name with --name, go back to those settings, or move the directory away. Engineers, seeds and "
            "stages may be added"
        )
    held = [
        {"stage_0": one.stage_0, "registration": {**one.registration, "file": None}}
        for one in (found, wanted)
    ]
    if other := [field for field, value in held[0].items() if value != held[1][field]]:
        raise RunDirectoryError(
            f"{path}: was begun with another {', '.join(other)}; go back to that, or begin a new one with "
            "its own name and seeds"
        )
    merged = {
        "preset": found.preset.model_copy(update={"stages": max(found.preset.stages, wanted.preset.stages)}),
        "arms": tuple({arm.label: arm for arm in (*found.arms, *wanted.arms)}.values()),
        "seeds": tuple(dict.fromkeys([*found.seeds, *wanted.seeds])),
    }
    whole = found.model_copy(update=merged)
    check(whole)
    if whole != found:
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


def reads_context(engineer: str) -> bool:
    """Whether an engineer reads the context in words, so that the context variant matters."""
    found = find_engineer(engineer)
    return found.asks is not None or found.reads_context


def engineer_variant(spec: EngineerSpec) -> str:
    """What comparisons, MLflow and Prefect call an engineer with its context variant: `checkpoint-V6`, or
    `random` if it reads none."""
    return Arm(engineer=spec.name, variant=spec.variant, reads=reads_context(spec.name)).label


def _engineers(text: str, variants: str | None, default: str) -> list[Arm]:
    over = [default] if variants is None else [*map(_known_variant, _items(variants, "--variants"))]
    found: list[Arm] = []
    for item in _items(text, "--engineers"):
        engineer, colon, variant = item.partition(":")
        reads = reads_context(engineer)
        if colon and not reads:
            raise ConfigError(
                f"--engineers {item}: {engineer!r} reads no context, so that a variant changes nothing; "
                f"write {engineer}"
            )
        shown = [_known_variant(variant)] if colon else over if reads else [default]
        found += [Arm(engineer=engineer, variant=one, reads=reads) for one in shown]
    labels = [arm.label for arm in found]
    if repeated := sorted({label for label in labels if labels.count(label) > 1}):
        raise ConfigError(f"--engineers: {', '.join(repeated)} would be run twice; name each once")
    return found


def _known_variant(name: str) -> str:
    """The name of a context variant; ConfigError if there is none of that name."""
    if name not in VARIANTS:
        near = difflib.get_close_matches(name.upper(), VARIANTS, n=1, cutoff=0.3)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError(f"there is no context variant {name!r}; {hint}known are {', '.join(VARIANTS)}")
    return name


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
