"""Which curricula a comparison consists of; `comparison.json` in its directory.

An engineer variant is a designer with a context variant. Every engineer variant is run with every seed, as a curriculum of its
own that starts from one shared stage 0.
"""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from engineer.context import VARIANTS
from engineer.registry import find_designer, resolve
from engineer.spec import DesignSpec
from envgen.errors import ConfigError, RunDirectoryError, describe_validation_error
from envgen.files import read_model, write_json
from envgen.frozen import Frozen
from infra.preset import Preset, load_preset, resolved_json
from infra.runs.run import FREE_FIELDS, changed_fields

SPEC_FILE = "comparison.json"
SHARED = "shared"
_READS_WITHOUT_ASKING = {"openai"}
"""Designers that read the context although they ask no model of the run."""


class EngineerVariant(Frozen):
    """A designer and the context variant that it is shown."""

    designer: str
    variant: str
    reads: bool
    """Whether the designer reads the context in words, so that the variant matters."""

    @property
    def label(self) -> str:
        """`checkpoint-V6` for a designer that reads, `random` for one that does not; part of file names and of MLflow's metrics."""
        return f"{self.designer}-{self.variant}" if self.reads else self.designer


class ComparisonSpec(Frozen):
    """A comparison: the preset that all curricula share, the engineer variants and the seeds."""

    name: str
    preset: Preset
    """Its seed is that of the shared stage 0; its designer is replaced by each engineer variant, which has its options if it is the same."""
    engineers: tuple[EngineerVariant, ...] = Field(min_length=1)
    seeds: tuple[int, ...] = Field(min_length=1)

    @property
    def children(self) -> list["Child"]:
        """Every engineer variant with every seed, one seed after the other, so that a cut-off comparison is a fair one."""
        return [Child(engineer=engineer, seed=seed) for seed in self.seeds for engineer in self.engineers]

    def preset_of(self, child: "Child") -> Preset:
        """The preset of a child's curriculum; ConfigError if its designer refuses it."""
        return self._designed(child.engineer.designer, child.engineer.variant, child.seed, self.preset.stages)

    @property
    def shared_preset(self) -> Preset:
        """The preset of the shared curriculum: stage 0 only, without pilot and gate, as nothing follows it."""
        preset = self._designed("fixed", self.preset.design.variant, self.preset.seed, 1)
        return preset.model_copy(update={"design": preset.design.model_copy(update={"candidates": 1, "pilot": 0, "gate": "off"})})

    def _designed(self, designer: str, variant: str, seed: int, stages: int) -> Preset:
        design = self.preset.design
        options = design.options if designer == design.designer else {}
        wanted = design.model_copy(update={"designer": designer, "variant": variant, "options": options})
        resolved: DesignSpec = resolve(wanted, self.preset.space, stages)
        return self.preset.model_copy(update={"design": resolved, "seed": seed, "stage0_seed": self.preset.seed, "stages": stages})


class Child(Frozen):
    """One curriculum of a comparison."""

    engineer: EngineerVariant
    seed: int

    @property
    def name(self) -> str:
        """Name of its run directory."""
        return f"{self.engineer.label}-s{self.seed}"

    @property
    def title(self) -> str:
        """What it is called in logs."""
        return f"{self.engineer.label} · seed {self.seed}"


def plan(
    preset: str,
    engineers: str,
    seeds: str,
    *,
    variants: str | None = None,
    stages: int | None = None,
    settings: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> ComparisonSpec:
    """The comparison that a command line asks for, every curriculum of it checked; ConfigError says what is wrong."""
    overrides = dict(settings or {})
    for field in {"seed", "stage0_seed"} & set(overrides):
        raise ConfigError(f"--set {field}: a comparison sets it for each curriculum; use --seeds")
    if stages is not None:
        overrides["stages"] = stages
    numbers = _seeds(seeds)
    base = load_preset(preset, overrides | {"seed": numbers[0]})
    if base.approval == "required":
        raise ConfigError(f"approval: {base.approval} asks a person before each stage, which a comparison cannot; use --set approval=none")
    chosen = _engineers(engineers, variants, base.design.variant)
    spec = ComparisonSpec(name=name or f"compare-{base.name}", preset=base, engineers=tuple(chosen), seeds=tuple(numbers))
    check(spec)
    return spec


def check(spec: ComparisonSpec) -> None:
    """Every curriculum of the comparison is possible; ConfigError otherwise."""
    for child in spec.children:
        try:
            Preset.model_validate(resolved_json(spec.preset_of(child)))
        except ValidationError as error:
            raise ConfigError(describe_validation_error(error, child.name)) from None


def open_comparison(directory: Path, wanted: ComparisonSpec) -> ComparisonSpec:
    """Claim a new directory for a comparison, or extend the one that is there; the spec with all that it now holds.

    Engineer variants, seeds and stages may be added. RunDirectoryError names the fields of the preset that differ.
    """
    path = directory / SPEC_FILE
    if not path.exists():
        if directory.exists() and any(entry.suffix != ".partial" for entry in directory.iterdir()):
            raise RunDirectoryError(f"{directory} exists and is no comparison ({SPEC_FILE} is missing); give the comparison another --name")
        write_json(path, wanted)
        return wanted
    found = read_comparison(directory)
    changed = changed_fields(found.preset, wanted.preset, FREE_FIELDS | {"seed"})
    if changed:
        raise RunDirectoryError(
            f"{directory} compares under another preset ({changed}). Ways out: give this comparison its own name with --name, go back to "
            f"those settings, or move the directory away. Engineers, seeds and stages may be added"
        )
    whole = ComparisonSpec(
        name=found.name,
        preset=found.preset.model_copy(update={"stages": max(found.preset.stages, wanted.preset.stages)}),
        engineers=tuple(dict.fromkeys([*found.engineers, *wanted.engineers])),
        seeds=tuple(dict.fromkeys([*found.seeds, *wanted.seeds])),
    )
    check(whole)
    if whole != found:
        write_json(path, whole)
    return whole


def read_comparison(directory: Path) -> ComparisonSpec:
    """The spec of an existing comparison; RunDirectoryError if there is none."""
    missing = f"{directory}: no comparison there ({SPEC_FILE} is missing)"
    return read_model(directory / SPEC_FILE, ComparisonSpec, missing, "move the directory away")


def _engineers(text: str, variants: str | None, default: str) -> list[EngineerVariant]:
    over = [known_variant(name) for name in _items(variants, "--variants")] if variants is not None else [default]
    found: list[EngineerVariant] = []
    for item in _items(text, "--engineers"):
        designer, colon, variant = item.partition(":")
        reads = find_designer(designer).asks is not None or designer in _READS_WITHOUT_ASKING
        if colon and not reads:
            raise ConfigError(f"--engineers {item}: {designer!r} reads no context, so that a variant changes nothing; write {designer}")
        shown = [known_variant(variant)] if colon else over if reads else [default]
        found += [EngineerVariant(designer=designer, variant=one, reads=reads) for one in shown]
    labels = [engineer.label for engineer in found]
    if repeated := sorted({label for label in labels if labels.count(label) > 1}):
        raise ConfigError(f"--engineers: {', '.join(repeated)} would be run twice; name each once")
    return found


def known_variant(name: str) -> str:
    """The name of a context variant; ConfigError if there is none of that name."""
    if name not in VARIANTS:
        near = difflib.get_close_matches(name.upper(), VARIANTS, n=1, cutoff=0.3)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError(f"there is no context variant {name!r}; {hint}known are {', '.join(VARIANTS)}")
    return name


def _seeds(text: str) -> list[int]:
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
