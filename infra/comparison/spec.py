"""The curricula of a comparison: every arm with every seed. `comparison.json` and a copy of its file lie
in its directory."""

from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path

from envgen.errors import RunDirectoryError
from envgen.files import check_unused, read_model, write_json, write_text
from envgen.frozen import Frozen
from infra.comparison.file import ComparisonFile, Registration, sha256
from infra.config.preset import Preset
from infra.runs.files import COMPARISON
from infra.runs.fork import SHARED
from infra.runs.run import FREE_FIELDS, changed_fields

COPY = "comparison.yaml"
"""The file of the comparison, in its directory."""
_OWN_FIELDS = {*FREE_FIELDS, "engineer", "seed"}
"""Fields of a preset that do not decide stage 0."""


class Child(Frozen):
    """One curriculum of a comparison, or a stage 0 that some of them share."""

    name: str
    """Of its run directory in the directory of the comparison."""
    preset: Preset
    arm: str = ""
    """Label of its arm; empty for a shared stage 0."""
    root: str = ""
    """The run whose stage 0 it starts from; empty for a shared stage 0."""


class ComparisonSpec(Frozen):
    """A comparison whose presets are resolved."""

    file: ComparisonFile
    base: Preset
    """What all arms share, with the first seed."""
    presets: dict[str, Preset]
    """Arm -> its preset, with the first seed."""
    registrations: tuple[Registration, ...] = ()
    """Of the file: the first before anything was run, then one for each time that arms or seeds were
    added."""

    @property
    def name(self) -> str:
        """Name of its directory."""
        return self.file.name

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The arms that are compared: each with each baseline, then two arms that are none."""
        bases, arms = self.file.baseline_arms, [*self.presets]
        others = [arm for arm in arms if arm not in bases]
        first = [(arm, base) for rank, base in enumerate(bases, 1) for arm in arms if arm not in bases[:rank]]
        return first + list(combinations(others, 2))

    @property
    def tested(self) -> list[tuple[str, str, str]]:
        """Arm, other arm and rate of each difference that is tested: of all pairs without baselines."""
        rates = ["valid", *(["optimal"] if self.base.space.best else [])]
        bases = self.file.baseline_arms
        return [(*pair, rate) for pair in self.pairs if pair[1] in bases or not bases for rate in rates]

    @property
    def children(self) -> list[Child]:
        """Every arm with every seed, one seed after the other, so that a cut-off comparison is a fair one."""
        return [
            Child(name=f"{arm}-s{seed}", preset=_seeded(preset, seed), arm=arm, root=self._root(arm, seed))
            for seed in self.file.seeds
            for arm, preset in self.presets.items()
        ]

    @property
    def roots(self) -> list[Child]:
        """Every stage 0 that curricula share: a run of that stage alone, whose config nobody designs."""
        roots: dict[str, Child] = {}
        for seed in self.file.seeds:
            for label, preset in self.presets.items():
                plain = preset.engineer.model_copy(update={"name": "fixed", "options": {}, "gate": "off"})
                alone = preset.model_copy(update={"engineer": plain, "stages": 1})
                root = Child(name=self._root(label, seed), preset=_seeded(alone, seed))
                roots.setdefault(root.name, root)
        return list(roots.values())

    def _root(self, label: str, seed: int) -> str:
        """Return the name of the stage 0 that a curriculum starts from: arms that train it alike share one,
        named after the first of them unless that is the first arm."""
        own, arms = self.presets[label], list(self.presets)
        first = next(arm for arm in arms if not changed_fields(self.presets[arm], own, _OWN_FIELDS))
        return f"{SHARED}-s{seed}" if first == arms[0] else f"{SHARED}-{first}-s{seed}"


def _seeded(preset: Preset, seed: int) -> Preset:
    return preset.model_copy(update={"seed": seed})


def resolve_comparison(file: ComparisonFile) -> ComparisonSpec:
    """Return a comparison with every arm checked; ConfigError names the arm that cannot be run."""
    base, presets = file.presets()
    return ComparisonSpec(file=file, base=base, presets=presets)


def open_comparison(directory: Path, wanted: ComparisonSpec, text: str) -> ComparisonSpec:
    """Register a comparison in a new directory, or add arms and seeds to an existing one; return the whole.
    RunDirectoryError names what else differs."""
    path = directory / COMPARISON
    if not path.exists():
        check_unused(path, "comparison")
        # Arms that are added later do not change what the others were registered against.
        fixed = wanted.file.model_copy(update={"baselines": wanted.file.baseline_arms})
        return _registered(directory, wanted.model_copy(update={"file": fixed}), text, 0)
    stored = read_comparison(directory)
    if stored.registrations[-1].sha256 == sha256(text):
        return stored
    if changes := _changes(stored, wanted):
        ways = "give this one its own name, go back to those settings, or move the directory away"
        reason = f"was registered as another comparison ({'; '.join(changes)})"
        raise RunDirectoryError(f"{directory} {reason}. Ways out: {ways}. Arms and seeds may be added")
    seeds = tuple(dict.fromkeys([*stored.file.seeds, *wanted.file.seeds]))
    file = stored.file.model_copy(update={"arms": stored.file.arms | wanted.file.arms, "seeds": seeds})
    # Of known arms too: memory and speed may have changed.
    seed = stored.base.seed
    presets = stored.presets | {arm: _seeded(preset, seed) for arm, preset in wanted.presets.items()}
    whole = stored.model_copy(update={"file": file, "presets": presets})
    if whole == stored:
        return stored
    finished = sum((directory / child.name / "results.json").exists() for child in stored.children)
    return _registered(directory, whole, text, finished)


def _changes(stored: ComparisonSpec, wanted: ComparisonSpec) -> list[str]:
    """Return in what a comparison differs from the registered one, but for added arms and seeds."""
    free = {"arms", "seeds", "preset", "set", "name", *(() if wanted.file.baselines else ("baselines",))}
    there, here = stored.file.model_dump(exclude=free), wanted.file.model_dump(exclude=free)
    changes = [f"{name}: {old} there, {here[name]} here" for name, old in there.items() if old != here[name]]
    common = [arm for arm in stored.presets if arm in wanted.presets]
    presets = {f"arms.{arm}: ": (stored.presets[arm], wanted.presets[arm]) for arm in common}
    for label, (old, new) in ({"": (stored.base, wanted.base)} | presets).items():
        if changed := changed_fields(old, new, {"description", "approval", "seed"}):
            changes.append(f"{label}{changed}")
    return changes


def _registered(directory: Path, spec: ComparisonSpec, text: str, finished: int) -> ComparisonSpec:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    registration = Registration(text=text, sha256=sha256(text), at=now, finished=finished)
    spec = spec.model_copy(update={"registrations": (*spec.registrations, registration)})
    write_json(directory / COMPARISON, spec)
    write_text(directory / COPY, text)
    return spec


def read_comparison(directory: Path) -> ComparisonSpec:
    """Return the spec of an existing comparison; RunDirectoryError if there is none."""
    missing = f"{directory}: no comparison there ({COMPARISON} is missing)"
    return read_model(directory / COMPARISON, ComparisonSpec, missing, "move the directory away")
