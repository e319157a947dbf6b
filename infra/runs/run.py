"""A curriculum's directory: its files, and how it is claimed: made once for one preset, resumed by the
same."""

import shlex
from pathlib import Path
from typing import Any

from engineer.engineers.plain import RESULTS
from engineer.engineers.registry import find_engineer
from engineer.gate import BASE_POLICY
from envgen.config import EnvConfig
from envgen.dataset import read_dataset, write_dataset
from envgen.errors import RunDirectoryError
from envgen.files import check_unused, digest, read_model, read_text, write_html
from envgen.frozen import Frozen
from infra.config.preset import Preset, leaves
from infra.config.settings import Settings
from infra.config.written import overrides, preset_source
from infra.runs.results import CurriculumResults
from infra.runs.stage import Directory, Evaluation, File, Stage
from infra.runs.steps import policy_identity, read_record, stage_directory
from policy.checkpoints import resolve_model
from policy.grpo.launch import process_count
from policy.grpo.train_spec import CHECKPOINT, deciding_options

FREE_FIELDS = {"stages", "description", "approval"}
"""Fields of the preset in which a resumed run may differ."""
_ABSENT, _TOLD, _WIDTH = "not set", 12, 60
_WAYS = "give the name of a run, or its path with a / in it, as ./NAME"


class Curriculum(Frozen):
    """A named run of a preset; `Run.curriculum` in its directory."""

    name: str
    preset: Preset
    preset_digest: str
    """Of all fields that an existing run holds fast; the same after the run was extended."""


def _read_curriculum(path: Path) -> Curriculum:
    missing = f"{path.parent}: no curriculum there ({path.name} is missing); {_WAYS}"
    return read_model(path, Curriculum, missing, "move the directory away")


def _read_results(path: Path) -> CurriculumResults:
    missing = f"{path.parent}: {path.name} is missing; no stage has finished yet, or this is no run: {_WAYS}"
    return read_model(path, CurriculumResults, missing, "run the same command again to rewrite it")


class Run(Directory):
    """The directory of a curriculum. Its curriculum and results are RunDirectoryErrors if they are missing or
    damaged."""

    curriculum = File("curriculum.json", _read_curriculum)
    results = File(RESULTS, _read_results)
    report = File("report.html", read_text, write_html)
    validation = File("validation.parquet", read_dataset, write_dataset, keep=2)

    @property
    def start(self) -> Evaluation:
        """The evaluation of the base policy."""
        return Evaluation(directory=self.directory / "start")

    def stage(self, number: int) -> Stage:
        """A stage."""
        return Stage(directory=stage_directory(self.directory, number))

    def evaluation(self, number: int) -> Evaluation:
        """The evaluation of the policy that stage `number` made; of the base policy for -1."""
        return self.start if number == BASE_POLICY else self.stage(number)

    def config_of(self, number: int) -> EnvConfig:
        """The config that a stage was trained on; that of stage 0 for the base policy."""
        return self.stage(max(number, 0)).config

    def parent(self, stage: int) -> int:
        """The stage whose checkpoint a stage starts from; -1 is the base policy."""
        return self.stage(stage - 1).gate.in_force if stage else BASE_POLICY


class RunRef(Run):
    """A curriculum's directory and preset; small, so that tasks can pass it around."""

    preset: Preset

    @property
    def name(self) -> str:
        """Name of the curriculum."""
        return self.directory.name

    @property
    def argument(self) -> str:
        """What a command is told to find it: the name, or the path of a run that lies elsewhere."""
        here = self.directory.parent.resolve() == Settings().runs.resolve()
        return self.name if here else str(self.directory.resolve())

    def policy(self, number: int) -> str:
        """The model that stage `number` made; the base policy for -1."""
        return (
            resolve_model(self.preset.model) if number == BASE_POLICY else str(self.stage(number).checkpoint)
        )

    def asked(self, stage: int) -> int | None:
        """The stage whose policy the engineer asks after `stage`, -1 for the base policy; None if it asks
        none."""
        return {"checkpoint": stage, "base": BASE_POLICY}.get(
            find_engineer(self.preset.engineer.name).asks or ""
        )

    def identity(self, number: int) -> str:
        """The digest of that model's files; a hub id stands for itself."""
        record = None if number == BASE_POLICY else read_record(self.stage(number).directory, "train")
        return record.outputs[CHECKPOINT] if record else policy_identity(self.policy(number))


def default_name(preset: Preset) -> str:
    """The name of a curriculum unless one is given."""
    return f"{preset.name}-{preset.engineer.name}-{preset.engineer.variant}-s{preset.seed}"


def run_command(name: str, preset: Preset, stages: int) -> str:
    """Return the command that makes this run with `stages` stages."""
    engineer = preset.engineer
    values = {"engineer": engineer.name, "variant": engineer.variant, "stages": stages, "seed": preset.seed}
    options = [part for option, value in values.items() for part in (f"--{option}", str(value))]
    options += [part for setting in overrides(preset) for part in ("--set", setting)]
    options += ["--set", "approval=required"] if preset.approval == "required" else []
    options += ["--name", name] if name != default_name(preset) else []
    return shlex.join(["envwright", "run", preset_source(preset), *options])


def new_curriculum(name: str, preset: Preset) -> Curriculum:
    """The curriculum that a run of this name and preset is."""
    return Curriculum(name=name, preset=preset, preset_digest=_digest(preset))


def open_run(directory: Path, preset: Preset) -> Curriculum:
    """Claim a new run directory, or check that an existing one was made by the same preset, as `checked_run`
    does."""
    found, run = checked_run(directory, preset), Run(directory=directory)
    held = run.curriculum.preset if run.has(Run.curriculum) else None
    stored = found
    if held:
        longest = {"approval": found.preset.approval, "stages": max(held.stages, preset.stages)}
        stored = new_curriculum(directory.name, held.model_copy(update=longest))
    if stored.preset != held:
        run.write(Run.curriculum, stored)
    return found


def checked_run(directory: Path, preset: Preset) -> Curriculum:
    """The curriculum of a run directory with this call's number of stages; writes nothing.

    The number of stages may be larger, so that a run can be extended; stages that are complete stay. Approval
    may be turned on and off; left out, it stays as it was. Options that decide memory and speed only
    (`policy.grpo.train_spec.MEMORY_OPTIONS`) may differ, so that a run that ran out of memory can go on.
    RunDirectoryError names the fields that differ."""
    run = Run(directory=directory)
    if not run.has(Run.curriculum):
        check_unused(run.path(Run.curriculum), "curriculum")
        return new_curriculum(directory.name, preset)
    found = run.curriculum.preset
    if details := changed_fields(found, preset, FREE_FIELDS):
        raise RunDirectoryError(
            f"{directory} was made by another preset ({details}). Ways out: give this run its own name with"
            " --name, go back to the settings of the run, or move the directory away"
        )
    complete = sum(1 for _ in directory.glob(f"stage-*/{Stage.manifest.name}"))
    known = {"approval": preset.approval or found.approval, "stages": max(preset.stages, complete)}
    return new_curriculum(directory.name, preset.model_copy(update=known))


def training_was_checked(directory: Path, preset: Preset) -> bool:
    """Return whether a run was begun there with the same training options, which TRL accepted then."""
    run = Run(directory=directory)
    return run.has(Run.curriculum) and run.curriculum.preset.check_spec() == preset.check_spec()


def changed_fields(there: Preset, here: Preset, free: set[str]) -> str:
    """The fields outside `free` in which two presets differ, dotted, with both values; empty if there are
    none."""
    old, new = (
        leaves({field: value for field, value in _held(preset).items() if field not in free})
        for preset in (there, here)
    )
    both = {name: (str(old.get(name, _ABSENT)), str(new.get(name, _ABSENT))) for name in sorted(old | new)}
    changed = {name: values for name, values in both.items() if values[0] != values[1]}
    told = [_told(name, *values) for name, values in changed.items()][:_TOLD]
    return "; ".join([*told, f"and {len(changed) - _TOLD} more"] if len(changed) > _TOLD else told)


def _told(name: str, there: str, here: str) -> str:
    """A field with both values, cut to where they differ."""
    if name.endswith(".sha256"):
        name = f"the content of a file, {name}"
    pairs = enumerate(zip(there, here, strict=False))
    same = next((index for index, (one, other) in pairs if one != other), min(len(there), len(here)))
    start = max(0, same - _WIDTH // 3) if max(len(there), len(here)) > _WIDTH else 0

    def cut(text: str) -> str:
        end = start + _WIDTH
        return f"{'...' if start else ''}{text[start:end]}{'...' if len(text) > end else ''}"

    return f"{name}: {cut(there)} there, {cut(here)} here"


def _digest(preset: Preset) -> str:
    return digest({field: value for field, value in _held(preset).items() if field not in FREE_FIELDS})


def _held(preset: Preset) -> dict[str, Any]:
    """The preset as JSON, of engine and training only what decides answers and what is learned: a run may be
    continued on another machine."""
    options = deciding_options(preset.trl, preset.training, process_count(preset.training))
    return {
        **preset.model_dump(mode="json"),
        "engine": preset.engine.decides,
        "trl": options.pop("trl"),
        "training": options,
    }
