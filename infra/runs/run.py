"""A run directory: what it holds, and how a preset claims it. A run is resumed by the same preset only."""

from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from engineer.engineers.registry import asks
from engineer.gate import BASE_POLICY
from engineer.spec import short_name
from envgen.breakdown import Breakdown
from envgen.config import EnvConfig
from envgen.environment import Source
from envgen.errors import RunDirectoryError
from envgen.files import check_unused, file_digest
from envgen.frozen import Frozen
from envgen.sampling import attainable
from infra.config.dotted import leaves
from infra.config.preset import Preset
from infra.results import Decision
from infra.runs import files
from infra.runs.files import Curriculum, File, file_state
from infra.runs.steps import Stored, policy_identity, read_record
from policy.checkpoints import check_hub, hub_folder, resolve_model
from policy.grpo.launch import process_count
from policy.grpo.train_spec import CHECKPOINT, deciding_options
from policy.rollouts import breakdown_of

T = TypeVar("T")
FREE_FIELDS = {"stages", "description", "approval", "unsolved", "engineer.on_failure", "engineer.sha256"}
"""Fields of the preset in which a resumed run may differ: a function that raised is mended."""
_ABSENT, _MOST_CHANGES, _WIDTH = "not set", 12, 60


class Run(Frozen):
    """The directory of a run, and its preset; small, so that tasks can pass it around. `stage` is the number
    of a stage, -1 for the evaluation of the base policy, and None for the run itself."""

    directory: Path
    chosen: Preset | None = None
    """Preset of this call, where it may differ from the stored one: see `checked_run`."""

    @property
    def preset(self) -> Preset:
        """The preset of this call, else the stored one; RunDirectoryError if there is none."""
        return self.chosen or self.read(files.CURRICULUM).preset

    @property
    def comparison(self) -> Path | None:
        """The directory of the comparison that the run is part of, if any."""
        above = self.directory.resolve().parent
        return above if (above / files.COMPARISON).exists() else None

    @property
    def commit(self) -> str:
        """Commit of a base policy from the hub; empty for a folder."""
        return self.read(files.CURRICULUM).commit if self.has(files.CURRICULUM) else ""

    def folder(self, stage: int | None = None) -> Path:
        """Return the folder of the run or of a stage."""
        if stage is None:
            return self.directory
        return self.directory / ("start" if stage == BASE_POLICY else f"stage-{stage:02d}")

    def path(self, file: File[Any], stage: int | None = None) -> Path:
        """Return the path of a file, which need not exist."""
        return self.folder(stage) / file.name

    def has(self, file: File[Any], stage: int | None = None) -> bool:
        """Whether a file exists."""
        return self.path(file, stage).exists()

    def read(self, file: File[T], stage: int | None = None) -> T:
        """Return what a file holds; RunDirectoryError if it is missing, damaged or changed by hand."""
        return file.read(self.path(file, stage))

    def test_breakdown(self, stage: int) -> Breakdown | None:
        """Return the counts of a stage's policy on the test set; None without one."""
        task, samples = self.preset.task, self.preset.evaluation.samples
        return (
            breakdown_of(task, self.read(files.TEST_ROLLOUTS, stage), samples) if self.preset.test else None
        )

    def digest(self, file: File[Any], stage: int | None = None) -> str:
        """Return the SHA-256 of a file."""
        path = self.path(file, stage)
        return _file_digest(path, file_state(path))

    def write(self, file: File[T], value: T, stage: int | None = None, *more: Any) -> None:
        """Write a file atomically. `more`: prompt style, origin and environment of a data set; style and
        environment of rollouts."""
        file.write(self.path(file, stage), value, *more)

    def log(self, name: str, stage: int | None = None) -> Path:
        """Return the path of the log of a process that worked for the run or a stage."""
        return self.folder(stage) / "logs" / f"{name}.log"

    def checkpoint(self, stage: int) -> Path:
        """Return the directory of the weights that a stage made."""
        return self.folder(stage) / CHECKPOINT

    def config_of(self, stage: int) -> EnvConfig:
        """Return the config that a stage was trained on; the config of stage 0 for the base policy."""
        return self.read(files.CONFIG, max(stage, 0))

    def parent(self, stage: int) -> int:
        """Return the stage whose checkpoint a stage starts from; -1 is the base policy."""
        return self.read(files.GATE, stage - 1).in_force if stage else BASE_POLICY

    def best(self, stage: int) -> int:
        """Return the stage with the best evaluation up to a stage, by its gate; -1 is the base policy."""
        return self.read(files.GATE, stage).best if stage >= 0 else BASE_POLICY

    def evaluation(self, stage: int) -> Stored:
        """Return the rollouts of a stage, or of the base policy."""
        return Stored(path=self.path(files.ROLLOUTS, stage), sha256=self.digest(files.ROLLOUTS, stage))

    def decision(self, stage: int) -> Decision | None:
        """Return what a person decided on the present proposal of a stage; None if nobody has."""
        if not (self.has(files.DECISION, stage) and self.has(files.PROPOSAL, stage)):
            return None
        decision = self.read(files.DECISION, stage)
        return decision if decision.proposal == self.digest(files.PROPOSAL, stage) else None

    @property
    def name(self) -> str:
        """Name of the curriculum."""
        return self.directory.name

    def policy(self, number: int) -> str:
        """The folder of the model that stage `number` made; of the base policy for -1."""
        if number != BASE_POLICY:
            return str(self.checkpoint(number))
        name = resolve_model(self.preset.model)
        return hub_folder(name, self.commit) if self.commit else name

    def model(self, number: int) -> Stored:
        """That model with the digest of its files; a hub id stands for itself."""
        return Stored(path=Path(self.policy(number)), sha256=self.identity(number))

    def asked(self, stage: int) -> int | None:
        """The stage whose policy the engineer asks after `stage`, -1 for the base policy; None if none."""
        return {"checkpoint": stage, "base": BASE_POLICY}.get(asks(self.preset.engineer.name) or "")

    def identity(self, number: int) -> str:
        """The digest of that model's files, or hub id and commit."""
        if number == BASE_POLICY and self.commit:
            return f"{self.preset.model}@{self.commit}"
        record = None if number == BASE_POLICY else read_record(self.folder(number), "train")
        return record.outputs[CHECKPOINT] if record else policy_identity(self.policy(number))

    def held_out(self) -> frozenset[str]:
        """Return the ids that training must not see: validation set, test set, and reserved ones."""
        sets = [files.VALIDATION, *([files.TEST] if self.preset.test else [])]
        return self.preset.task.reserved().union(instance.id for file in sets for instance in self.read(file))

    def possible(self, stage: int, config: EnvConfig) -> tuple[EnvConfig, list[str]]:
        """Return the nearest config that the instances of a stage can be drawn from, and the changes."""
        source = Source(self.preset.seed, stage)
        return attainable(self.preset.task, config, self.preset.instances, source, self.held_out())


@lru_cache(10_000)
def _file_digest(path: Path, state: tuple[int, ...]) -> str:
    return file_digest(path)


def default_name(preset: Preset) -> str:
    """The name of a curriculum unless one is given."""
    engineer = preset.engineer
    return f"{preset.name}-{short_name(engineer.name)}-{engineer.context}-s{preset.seed}"


def open_run(directory: Path, preset: Preset) -> Run:
    """Claim a new run directory, or check that an existing one was made by the same preset."""
    run = checked_run(directory, preset)
    if not run.has(files.CURRICULUM):
        commit = check_hub(preset.model)
        run.write(files.CURRICULUM, Curriculum(name=run.name, preset=preset, commit=commit))
        return run
    curriculum = run.read(files.CURRICULUM)
    stored = curriculum.preset
    longest = {"approval": run.preset.approval, "stages": max(stored.stages, preset.stages)}
    if (extended := stored.model_copy(update=longest)) != stored:
        run.write(files.CURRICULUM, curriculum.model_copy(update={"preset": extended}))
    return run


def checked_run(directory: Path, preset: Preset) -> Run:
    """Return the run of a directory with the preset of this call; writes nothing.

    Stages may be added; complete ones stay. Approval may be turned on and off; left out, it stays as it was.
    Options that decide memory and speed only may differ. RunDirectoryError names other fields that differ."""
    run = Run(directory=directory, chosen=preset)
    if not run.has(files.CURRICULUM):
        check_unused(run.path(files.CURRICULUM), "curriculum")
        return run
    stored = run.read(files.CURRICULUM).preset
    if details := changed_fields(stored, preset, FREE_FIELDS):
        raise RunDirectoryError(
            f"{directory} was made by another preset ({details}). Ways out: give this run its own name with"
            " --name, go back to the settings of the run, or move the directory away"
        )
    complete = sum(1 for _ in directory.glob(f"stage-*/{files.MANIFEST.name}"))
    update = {"approval": preset.approval or stored.approval, "stages": max(preset.stages, complete)}
    return Run(directory=directory, chosen=preset.model_copy(update=update))


def training_was_checked(directory: Path, preset: Preset) -> bool:
    """Return whether a run was begun there with the same training options, which TRL accepted then."""
    run = Run(directory=directory)
    return run.has(files.CURRICULUM) and run.read(files.CURRICULUM).preset.check_spec() == preset.check_spec()


def changed_fields(stored: Preset, wanted: Preset, free: set[str]) -> str:
    """Return the fields outside `free` in which two presets differ, with both values; or nothing."""
    old, new = _held(stored, free), _held(wanted, free)
    changes = [
        f"{name}: {_shown(old.get(name, _ABSENT))} there, {_shown(new.get(name, _ABSENT))} here"
        for name in sorted(old | new)
        if old.get(name) != new.get(name)
    ]
    more = [f"and {len(changes) - _MOST_CHANGES} more"] if len(changes) > _MOST_CHANGES else []
    return "; ".join([*changes[:_MOST_CHANGES], *more])


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}..."


def _held(preset: Preset, free: set[str]) -> dict[str, Any]:
    """Return dotted name -> value, as JSON, of the fields outside `free`, of engine and training only what
    decides answers and what is learned: a run may be continued on another machine."""
    training = deciding_options(preset.trl, preset.training, process_count(preset.training))
    decisive = {"engine": preset.engine.decides, "trl": training.pop("trl"), "training": training}
    fields = leaves(preset.model_dump(mode="json") | decisive)
    left_out = free | ({"test"} if preset.test is None else set())
    return {name: value for name, value in fields.items() if not left_out & {name, name.split(".")[0]}}
