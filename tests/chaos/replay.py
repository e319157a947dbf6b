"""A whole run of the micro preset in one process without a server, and again with recorded models.

`record` runs it with the real trainer and engine and keeps on disk what they wrote and answered; after
`replay` the same curriculum takes that from there: every other step is the real one."""

import os
import pickle
import shutil
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import tasks.pilot
from outcomes import steady
from prefect import Flow, Task

import flows.curriculum as curriculum
import tasks.engineer
import tasks.learn
from engineer.engineers import asking
from engineer.gate import BASE_POLICY
from envgen.files import atomic_path, digest, move_directory, write_json
from infra.analysis.report import build
from infra.config.preset import load_preset
from infra.config.settings import Settings
from infra.lineage.recorder import connect
from infra.runs.lease import exclusive
from infra.runs.results import CurriculumResults
from infra.runs.run import RunRef
from infra.runs.stage import Stage
from infra.runs.steps import RECORDS, read_record
from policy.chat.contract import Completion, Conversation, Progress, Sampling, equal_groups
from policy.grpo.saving import BEFORE
from policy.grpo.train_spec import CHECKPOINT, TrainSpec

PRESET = "micro"
NAME = "run"
_ANSWERS = "answers.pickle"
_WORK = "work"
_AT_ONCE = 6
"""Answers that a replayed model gives at a time, so that some are kept when it is killed."""


def run(runs: Path, **changed: Any) -> Path:
    """Run the preset, or go on with it, in a folder of runs; its directory. Only in a process of its own."""
    _work_in(runs)
    for name, value in list(vars(curriculum).items()):
        if isinstance(value, Task | Flow):  # what they decorate, without a server
            setattr(curriculum, name, value.fn)
    curriculum._completed = lambda value, _: value
    # When and how long a model was asked is part of what the engineer's step wrote.
    asking.time = SimpleNamespace(monotonic=lambda: 0.0)
    asking.datetime = SimpleNamespace(now=lambda zone: datetime(2000, 1, 1, tzinfo=zone))
    curriculum.run_curriculum(load_preset(PRESET, changed), runs / NAME)
    return runs / NAME


def _work_in(runs: Path) -> None:
    os.environ["ENVWRIGHT_RUNS"] = str(runs)
    os.environ.pop("MLFLOW_TRACKING_URI", None)  # where MLflow puts the store that was opened before


def record(runs: Path, tape: Path, **changed: Any) -> None:
    """Run the preset with its models, and keep on the tape what they wrote and answered."""
    answers: dict[Any, Any] = {}
    engine, run_child = tasks.learn.engine, tasks.learn.run_child

    def recorded(source: str, *rest: Any) -> Any:
        return _Recorded(_name(source), answers, engine(source, *rest))

    def train(module: str, spec: TrainSpec, *rest: Any, **options: Any) -> None:
        run_child(module, spec, *rest, **options)
        shutil.copytree(spec.work, tape / spec.output.name / _WORK, copy_function=_beginning)
        shutil.copytree(spec.output / CHECKPOINT, tape / spec.output.name / CHECKPOINT)
        for file in (Stage.train_log, Stage.canary):
            shutil.copy(spec.output / file.name, tape / spec.output.name)

    _set(recorded, train)
    run(runs, **changed)
    (tape / _ANSWERS).write_bytes(pickle.dumps(answers))


def is_recorded(tape: Path) -> bool:
    """Whether there is all that `replay` needs."""
    return (tape / _ANSWERS).exists()


def _beginning(source: str, target: str) -> None:
    """Copy the beginning of a trainer's file: nobody reads it again, it is only removed."""
    Path(target).write_bytes(Path(source).read_bytes()[:1000])


def replay(tape: Path) -> None:
    """Let this process take from the tape what its trainer and its engines would do, and draw charts once."""
    answers = pickle.loads((tape / _ANSWERS).read_bytes())

    def train(_: str, spec: TrainSpec, spec_path: Path, log: Path, *__: Any, **___: Any) -> None:
        # The operations of `run_child`, of the trainer and of its end, in their order.
        taped, partial = tape / spec.output.name, spec.work / "checkpoint.partial"
        write_json(spec_path, spec)
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "a") as file:
            file.write("replayed\n")
        shutil.copytree(
            taped / _WORK, spec.work, ignore=shutil.ignore_patterns("spec.json"), dirs_exist_ok=True
        )
        assert (spec.work / BEFORE).exists()
        shutil.copytree(taped / CHECKPOINT, partial, dirs_exist_ok=True)
        for file in (Stage.train_log, Stage.canary):
            with atomic_path(spec.output / file.name) as temporary:
                shutil.copy(taped / file.name, temporary)
        move_directory(partial, spec.output / CHECKPOINT)

    def nothing(*_: Any) -> None:
        """No child is warmed up for a model that is replayed."""

    _set(lambda source, *_: _Recorded(_name(source), answers), train)
    curriculum.warm_engine = curriculum.warm_trainer = nothing
    for name in ("_figures", "_training_charts"):
        setattr(build, name, _once(getattr(build, name)))


def _once(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Charts take most of a run's time, and follow from its results."""
    drawn: dict[str, Any] = {}

    def found(first: Any, results: CurriculumResults, *rest: Any) -> Any:
        key = digest([steady(results.model_dump(mode="json")), *rest])
        if key not in drawn:
            drawn[key] = draw(first, results, *rest)
        return drawn[key]

    return found


def make_store(runs: Path) -> None:
    """A folder of runs with an empty store of MLflow, which takes long to make."""
    _work_in(runs)
    runs.mkdir(parents=True)
    connect(Settings().tracking_uri).search_experiments()


def before_training(finished: Path, folder: Path) -> Path:
    """A folder of runs in which the first stage of a finished run is to be trained."""
    runs = Path(shutil.copytree(finished, folder / "untrained"))
    stage = RunRef(directory=runs / NAME, preset=load_preset(PRESET)).stage(0)
    for path in (runs / NAME).iterdir():
        if path.name.startswith("stage-") and path != stage.directory:
            shutil.rmtree(path)
    for path in stage.directory.iterdir():
        if path.name not in {Stage.config.name, Stage.train.name, RECORDS}:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in (stage.directory / RECORDS).iterdir():
        if path.stem != "generate":
            path.unlink()
    return runs


def train_only(runs: Path) -> None:
    """The step that trains the first stage, the trainer in this process."""
    from policy.grpo.training import train

    _work_in(runs)

    def in_process(_: str, spec: TrainSpec, spec_path: Path, *__: Any, **___: Any) -> None:
        write_json(spec_path, spec)
        train(spec)

    tasks.learn.run_child = in_process
    run = RunRef(directory=runs / NAME, preset=load_preset(PRESET))
    data = read_record(run.stage(0).directory, "generate")
    assert data is not None
    with exclusive(run.directory):
        tasks.learn.train.fn(run, 0, data, BASE_POLICY)


def _set(engine: Callable[..., Any], train: Callable[..., None]) -> None:
    for module in (tasks.learn, tasks.engineer, tasks.pilot):
        module.engine = engine
    tasks.learn.run_child = train


def _name(source: str) -> str:
    """The same for a model of every run."""
    return "/".join(Path(source).parts[-2:])


class _Recorded:
    """A chat model whose answers are filed by what was asked; without a model it finds them there."""

    def __init__(self, name: str, answers: Any, model: Any = None) -> None:
        self.name, self.answers, self.model = name, answers, model

    def complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress | None = None
    ) -> list[Completion]:
        how = sampling.model_dump_json()
        keys = {
            index: (self.name, how, conversations[index], rank)
            for group in equal_groups(conversations)
            for rank, index in enumerate(group)
        }
        if self.model:
            found = self.model.complete(conversations, sampling, progress)
            self.answers.update({keys[index]: answer for index, answer in enumerate(found)})
            return found
        found = [self.answers[keys[index]] for index in range(len(conversations))]
        for first in range(0, len(found), _AT_ONCE) if progress else ():
            progress(dict(list(enumerate(found))[first : first + _AT_ONCE]))
        return found

    def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        if self.model:
            for sequence, scores in zip(sequences, self.model.score(sequences), strict=True):
                self.answers[self.name, tuple(sequence)] = scores
        return [self.answers[self.name, tuple(sequence)] for sequence in sequences]
