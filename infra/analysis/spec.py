"""Which curricula a comparison consists of; `comparison.json` in its directory.

Every arm is run with every seed, as a separate curriculum. In `envwright compare` an arm is an engineer
variant, an engineer with a context variant, and all curricula start from one shared stage 0, unless each seed
is to have its own.
"""

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from engineer.context import VARIANTS
from engineer.engineers.registry import reads_context, resolve, variant_label
from envgen.errors import ConfigError, RunDirectoryError
from envgen.files import check_unused, file_digest, read_model, write_json
from envgen.frozen import Frozen
from infra.config.preset import Preset, load_preset
from infra.runs.files import COMPARISON
from infra.runs.fork import SHARED
from infra.runs.run import FREE_FIELDS, changed_fields

"""Stage 0 where all seeds share one; `shared-sSEED` is the stage 0 of a seed."""
Stage0 = Literal["one", "per-seed"]
"""`one`: all seeds go on from one stage 0, so that an engineer that draws nothing makes the same first
decision for all of them. `per-seed`: each seed has its own stage 0, which its arms share."""


class Arm(Frozen):
    """What the curricula of an arm have of their own."""

    engineer: str
    variant: str

    @property
    def label(self) -> str:
        """`checkpoint-V6` if the engineer reads a context, `random` if not; part of file names."""
        return variant_label(self.engineer, self.variant)


class ComparisonSpec(Frozen):
    """A comparison: the preset that all curricula share, the arms and the seeds."""

    name: str
    preset: Preset
    """Its seed is the seed of a stage 0 that all share; an arm with its engineer has its options too."""
    arms: tuple[Arm, ...] = Field(min_length=1)
    seeds: tuple[int, ...] = Field(min_length=1)
    stage_0: Stage0 = "one"
    registration: dict[str, Any] = {}
    """What was fixed before anything was run; a comparison is not continued under another one."""

    @property
    def children(self) -> list["Child"]:
        """Every arm with every seed, one seed after the other, so that a cut-off comparison is a fair one;
        ConfigError if an engineer refuses the preset."""
        presets = {
            arm.label: _designed(self.preset, arm.engineer, arm.variant, self.preset.stages)
            for arm in self.arms
        }
        return [
            Child(
                name=f"{label}-s{seed}",
                preset=preset.model_copy(update={"seed": seed, "stage0_seed": root_seed}),
                arm=label,
                root=root,
            )
            for seed in self.seeds
            for root, root_seed in [self._root(seed)]
            for label, preset in presets.items()
        ]

    @property
    def roots(self) -> list["Child"]:
        """Every stage 0 that curricula share: a run of that stage only, without a gate."""
        preset = _designed(self.preset, "fixed", self.preset.engineer.variant, 1)
        engineer = preset.engineer.model_copy(update={"gate": "off"})
        return [
            Child(
                name=name,
                preset=preset.model_copy(update={"engineer": engineer, "seed": seed, "stage0_seed": seed}),
            )
            for name, seed in dict.fromkeys(map(self._root, self.seeds))
        ]

    def _root(self, seed: int) -> tuple[str, int]:
        """Return run directory and seed of the stage 0 that the curricula of a seed start from."""
        return (SHARED, self.preset.seed) if self.stage_0 == "one" else (f"{SHARED}-s{seed}", seed)


def _designed(preset: Preset, engineer: str, variant: str, stages: int) -> Preset:
    """A preset with another engineer, which keeps the options if it is the same one."""
    options = preset.engineer.options if engineer == preset.engineer.name else {}
    spec = preset.engineer.model_copy(update={"name": engineer, "variant": variant, "options": options})
    return preset.model_copy(update={"engineer": resolve(spec, preset.space, stages), "stages": stages})


class Child(Frozen):
    """One curriculum of a comparison, or a stage 0 that some of them share."""

    name: str
    """Of its run directory in the directory of the comparison."""
    preset: Preset
    arm: str = ""
    """Label of its arm; empty for a shared stage 0."""
    root: str = ""
    """The run whose stage 0 it starts from; empty for a shared stage 0."""


def plan(
    preset: str,
    engineers: Sequence[str],
    seeds: Sequence[int],
    *,
    stages: int | None = None,
    settings: Mapping[str, Any] | None = None,
    name: str = "",
    stage_0: Stage0 = "one",
    registration: str = "",
) -> ComparisonSpec:
    """Return the comparison that is asked for, all curricula checked; ConfigError otherwise.

    `engineers` are names, as `random`, or names with a context variant, as `checkpoint:V1`; `registration` is
    a text file, whose digest is kept."""
    overrides = dict(settings or {}) | ({} if stages is None else {"stages": stages})
    for field in {"seed", "stage0_seed"} & set(overrides):
        raise ConfigError(f"--set {field}: a comparison sets it for each curriculum; use --seeds")
    if len(set(seeds)) < len(seeds):
        raise ConfigError(f"--seeds {','.join(map(str, seeds))}: a seed is named twice; name each once")
    base = load_preset(preset, overrides | {"seed": seeds[0]})
    if base.approval == "required":
        raise ConfigError(
            f"approval: {base.approval} asks a person before each stage, which a comparison cannot; "
            "use --set approval=none"
        )
    if registration and not Path(registration).is_file():
        expected = "expected a text that says what is expected"
        raise ConfigError(f"--registration {registration}: no such file; {expected}")
    held = {"file": registration, "sha256": file_digest(Path(registration))} if registration else {}
    spec = ComparisonSpec(
        name=name or f"compare-{base.name}",
        preset=base,
        arms=tuple(_arms(engineers, base.engineer.variant)),
        seeds=tuple(seeds),
        stage_0=stage_0,
        registration=held,
    )
    _check(spec)
    return spec


def _check(spec: ComparisonSpec) -> None:
    """ConfigError if a curriculum of a comparison is not possible."""
    for child in spec.children[: len(spec.arms)]:
        child.preset.check_lengths()


def open_comparison(directory: Path, wanted: ComparisonSpec) -> ComparisonSpec:
    """Claim a new directory for a comparison, or extend an existing one; return all that it then holds.

    Arms, seeds and stages may be added. RunDirectoryError names the fields of the preset that differ.
    """
    path = directory / COMPARISON
    if not path.exists():
        check_unused(path, "comparison")
        write_json(path, wanted)
        return wanted
    stored = read_comparison(directory)
    if changed := changed_fields(stored.preset, wanted.preset, FREE_FIELDS | {"seed"}):
        raise RunDirectoryError(
            f"{directory} compares under another preset ({changed}). Ways out: give this comparison its own "
            "name with --name, go back to those settings, or move the directory away. Engineers, seeds and "
            "stages may be added"
        )
    digests = stored.registration.get("sha256"), wanted.registration.get("sha256")
    fields = {"stage_0": (stored.stage_0, wanted.stage_0), "registration": digests}
    if changed := ", ".join(field for field, (there, here) in fields.items() if there != here):
        raise RunDirectoryError(
            f"{path}: was begun with another {changed}; go back to that, or begin a new one with its own name"
            " and seeds"
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
    missing = f"{directory}: no comparison there ({COMPARISON} is missing)"
    return read_model(directory / COMPARISON, ComparisonSpec, missing, "move the directory away")


def _arms(engineers: Sequence[str], usual: str) -> list[Arm]:
    """Return an arm for each engineer, with the context variant that it names, else the usual one."""
    arms: list[Arm] = []
    for item in engineers:
        engineer, colon, variant = item.partition(":")
        if colon and not reads_context(engineer):
            raise ConfigError(
                f"--engineers {item}: {engineer!r} reads no context, so that a variant changes nothing; "
                f"write {engineer}"
            )
        arms.append(Arm(engineer=engineer, variant=variant if colon else usual))
    for arm in arms:
        if arm.variant not in VARIANTS:
            near = difflib.get_close_matches(arm.variant.upper(), VARIANTS, n=1, cutoff=0.3)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ConfigError(
                f"there is no context variant {arm.variant!r}; {hint}known are {', '.join(VARIANTS)}"
            )
    if repeated := sorted(label for label, count in Counter(arm.label for arm in arms).items() if count > 1):
        raise ConfigError(f"--engineers: {', '.join(repeated)} would be run twice; name each once")
    return arms
