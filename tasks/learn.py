"""Train the policy of a stage and evaluate policies on the validation set."""

import os
import shutil
from pathlib import Path
from typing import Any

from prefect import task

from engineer.gate import START
from envgen.breakdown import Breakdown, Difference
from envgen.dataset import read_dataset
from envgen.errors import ChildError
from envgen.files import file_digest, write_json
from envgen.frozen import Frozen
from envgen.seeds import seed_integer
from infra.runs.steps import StepRecord, run_step, step_key
from policy.answers import KeptAnswers
from policy.batches import deciding_options
from policy.canary import CANARY, Canary, check_weights, refuse_stale
from policy.chat import Sampling
from policy.checkpoints import model_identity
from policy.child import run_child, warm_up
from policy.evaluation import evaluate, valid_gains
from policy.out_of_memory import OUT_OF_MEMORY, memory_advice
from policy.rollouts import breakdown_of, read_rollouts, write_rollouts
from policy.sharding import Sharding
from policy.train_spec import TrainingSettings, TrainSpec, last_checkpoint, launcher, process_count
from tasks.artifacts import TrainingProgress
from tasks.run import Parent, RunRef, close_engine, engine, log, parent_stage, reporting, task_options

ROLLOUTS, BREAKDOWN, CHANGES, WEIGHTS = "rollouts.parquet", "breakdown.json", "changes.json", "weights.json"
PARTIAL = "rollouts.partial.jsonl"
"""The answers of an evaluation that was cut off."""
WORK = "work"
WARM_UP_SECONDS = 20
"""Before training is expected to end, the engine that will evaluate it begins its imports."""


class Changes(Frozen):
    """What a stage changed on the validation set, against the policy that it started from."""

    valid: dict[int, Difference]
    """Map size -> change of the valid rate, paired over the instances."""


@task(**task_options("train"))
def train(run: RunRef, stage: int, data: StepRecord, parent: Parent) -> StepRecord:
    """GRPO in child processes: `checkpoint/`, `train_log.parquet` and `canary.json`."""
    preset, directory = run.preset, run.stage(stage)
    options = {**preset.trl, "num_train_epochs": preset.epochs}
    decides = {
        "data": data.key,
        "parent": parent.identity,
        "rewards": preset.rewards,
        "seed": seed_integer(preset.stage_seed(stage), stage, "train"),
        **deciding_options(options, preset.training),
    }
    # Its own for each key and form: nothing goes on from the trainer's checkpoints of other settings.
    work = directory / WORK / f"{step_key('train', decides)[:12]}-{Sharding.of(preset.training).checkpoints}"
    spec = TrainSpec(
        parent=run.policy(parent.stage),
        data=directory / "train.parquet",
        output=directory,
        work=work,
        style=preset.prompt_style,
        rewards=preset.rewards,
        trl=options,
        seed=decides["seed"],
        training=preset.training,
    )
    record = run_step(directory, "train", decides, ("checkpoint", "train_log.parquet", CANARY), lambda: _train(run, stage, spec))
    # Only now: until the record is written, the trainer's checkpoints are what a resume starts from.
    shutil.rmtree(directory / WORK, ignore_errors=True)
    return record


def _train(run: RunRef, stage: int, spec: TrainSpec) -> None:
    # Its memory is for the trainer, and what it has loaded may be about to change.
    close_engine()
    show, out_of_memory = TrainingProgress(run, stage), []

    def progress(entry: dict[str, Any]) -> None:
        out_of_memory.extend([entry[OUT_OF_MEMORY]] if OUT_OF_MEMORY in entry else [])
        show(entry)
        if entry.get("steps_here") and entry["elapsed"] / entry["steps_here"] * (entry["steps"] - entry["step"]) < WARM_UP_SECONDS:
            warm_engine(run)

    log_path = run.stage(stage) / "logs" / "training.log"
    try:
        run_child(
            "policy.training",
            spec,
            spec.work / "spec.json",
            log_path,
            progress,
            launcher=launcher(spec.training, spec.trl),
            environment=_one_gpu(spec.training),
        )
    except ChildError as error:
        if not out_of_memory:
            raise
        advice = memory_advice(out_of_memory[0], spec.trl, spec.training, last_checkpoint(spec.work))
        raise ChildError(f"stage {stage}: {advice}. The trainer's output is in {log_path}") from error


def warm_trainer(run: RunRef, stage: int) -> None:
    """Let the training child of a stage do its imports while data are drawn and reports are written."""
    training = run.preset.training
    if stage < run.preset.stages and training.launch is None and not (run.stage(stage) / "checkpoint").exists():
        warm_up("policy.training", _one_gpu(training))


def warm_engine(run: RunRef) -> None:
    """Let the engine do its imports before it is asked anything; only one process of transformers is worth it."""
    if run.preset.engine.backend == "transformers" and run.preset.engine.replicas == 1:
        warm_up("policy.engine_child", {})


def _one_gpu(training: TrainingSettings) -> dict[str, str]:
    """A single process sees the first GPU only: with several the trainer would wrap the model for all, which GRPO refuses."""
    if process_count(training) > 1:
        return {}
    return {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]}


@task(**task_options("evaluate-start"))
def evaluate_start(run: RunRef, validation: StepRecord) -> StepRecord:
    """Rollouts and breakdown of the start policy."""
    source = run.policy(START)
    identity = model_identity(source)
    decides = {"validation": validation.key, "model": identity, "answer": run.preset.max_answer_tokens, **run.preset.engine.decides}

    def body() -> None:
        _evaluate(run, source, identity, run.start)
        write_json(run.start / BREAKDOWN, breakdown_of(read_rollouts(run.start / ROLLOUTS)))

    return run_step(run.start, "start", decides, (ROLLOUTS, BREAKDOWN), body, kept=PARTIAL)


@task(**task_options("evaluate"))
def evaluate_stage(run: RunRef, stage: int, checkpoint: StepRecord, validation: StepRecord) -> StepRecord:
    """Rollouts of a stage's checkpoint on the validation set, after a check that these are the weights that answer."""
    directory, identity = run.stage(stage), checkpoint.outputs["checkpoint"]
    decides = {"validation": validation.key, "checkpoint": identity, "answer": run.preset.max_answer_tokens, **run.preset.engine.decides}
    source = str(directory / "checkpoint")

    def body() -> None:
        _check_weights(run, stage, source)
        _evaluate(run, source, identity, directory)

    return run_step(directory, "evaluate", decides, (ROLLOUTS, WEIGHTS), body, kept=PARTIAL)


def _check_weights(run: RunRef, stage: int, source: str) -> None:
    """Write `weights.json`; ModelError if the engine answers with other weights than those that were trained."""
    directory, preset = run.stage(stage), run.preset
    model = engine(source, preset.engine, directory / "logs" / "engine.log")
    check = check_weights(Canary.model_validate_json((directory / CANARY).read_bytes()), model.score, preset.engine.dtype)
    log.info("stage %d: weights of the engine and of the trainer: %s", stage, check)
    if preset.training.canary == "stop" and check.verdict == "other":
        close_engine()
        refuse_stale(check, source)
    write_json(directory / WEIGHTS, check)


@task(**task_options("summarize"))
def summarize(run: RunRef, stage: int, rollouts: StepRecord) -> StepRecord:
    """The failure breakdown of a stage's rollouts, and the change against the policy that it started from."""
    directory, before = run.stage(stage), run.evaluation(parent_stage(run, stage)) / ROLLOUTS

    def body() -> None:
        after = read_rollouts(directory / ROLLOUTS)
        write_json(directory / BREAKDOWN, breakdown_of(after))
        write_json(directory / CHANGES, Changes(valid=valid_gains(read_rollouts(before), after)))

    decides = {"rollouts": rollouts.outputs[ROLLOUTS], "before": file_digest(before)}
    return run_step(directory, "summarize", decides, (BREAKDOWN, CHANGES), body)


def read_breakdown(directory: Path) -> Breakdown:
    """The breakdown in a stage directory, or in `start`."""
    return Breakdown.model_validate_json((directory / BREAKDOWN).read_bytes())


def read_changes(directory: Path) -> dict[int, Difference]:
    """Map size -> change of the valid rate over a finished stage."""
    return Changes.model_validate_json((directory / CHANGES).read_bytes()).valid


def _evaluate(run: RunRef, source: str, identity: str, directory: Path) -> None:
    preset = run.preset
    instances = read_dataset(run.validation)
    model = engine(source, preset.engine, directory / "logs" / "engine.log")
    kept = KeptAnswers(model, directory / PARTIAL, {"model": identity, **preset.engine.decides})
    progress = reporting(f"{directory.name}: %d of {len(instances)} validation instances answered")
    write_rollouts(
        directory / ROLLOUTS,
        evaluate(kept, instances, preset.prompt_style, Sampling(max_tokens=preset.max_answer_tokens), progress),
        preset.prompt_style,
    )
