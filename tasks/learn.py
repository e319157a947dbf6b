"""Train the policy of a stage and evaluate policies on the validation set."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from prefect import task

from engineer.gate import BASE_POLICY
from envgen.errors import ChildError
from envgen.seeds import seed_integer
from infra.runs.files import (
    BREAKDOWN,
    CHANGES,
    PARTIAL_ROLLOUTS,
    RESUMED,
    ROLLOUTS,
    TRAIN_DATA,
    TRAINING_LOG,
    VALIDATION,
    WORK,
)
from infra.runs.run import RunRef
from infra.runs.steps import StepRecord, run_step, step_key
from policy import simulated
from policy.chat.answers import KeptAnswers
from policy.chat.contract import Sampling
from policy.checkpoints import is_simulated
from policy.child import OUT_OF_MEMORY, WARNING, run_child, vllm_python
from policy.evaluation import Changes, evaluate, valid_gains
from policy.grpo.launch import checkpoint_form, launcher, memory_advice, process_count
from policy.grpo.train_spec import (
    CHECKPOINT,
    TrainingSettings,
    TrainSpec,
    deciding_options,
    last_checkpoint,
    resumed_steps,
)
from policy.rollouts import breakdown_of
from tasks.artifacts import TrainingProgress
from tasks.run import answering, close_engine, log, reporting, task_options


@task(**task_options("train"))
def train(run: RunRef, stage: int, data: StepRecord, parent: int) -> StepRecord:
    """GRPO in child processes from the policy of stage `parent`: weights and training log."""
    preset = run.preset
    options = {**preset.trl, "num_train_epochs": preset.epochs}
    decides = {
        "data": data.key,
        "parent": run.identity(parent),
        "rewards": preset.rewards,
        "seed": seed_integer(preset.stage_seed(stage), stage, "train"),
        **deciding_options(options, preset.training, process_count(preset.training)),
    }
    # Its own for each key and form: nothing goes on from the trainer's checkpoints of other settings.
    work = run.folder(stage) / WORK / f"{step_key('train', decides)[:12]}-{checkpoint_form(preset.training)}"
    spec = TrainSpec(
        parent=run.policy(parent),
        data=run.path(TRAIN_DATA, stage),
        output=run.folder(stage),
        work=work,
        environment=preset.environment,
        style=preset.prompt_style,
        rewards=preset.rewards,
        trl=options,
        seed=decides["seed"],
        training=preset.training,
    )
    record = run_step(
        run.folder(stage),
        "train",
        decides,
        (CHECKPOINT, TRAINING_LOG.name),
        lambda: _train(run, stage, spec),
        facts=lambda: _facts(work),
    )
    # Only now: until the record is written, the trainer's checkpoints are what a resume starts from.
    shutil.rmtree(run.folder(stage) / WORK, ignore_errors=True)
    return record


def _facts(work: Path) -> dict[str, Any]:
    steps = resumed_steps(work)
    return {RESUMED: steps} if steps else {}


def _train(run: RunRef, stage: int, spec: TrainSpec) -> None:
    # Its memory is for the trainer, and what it has loaded may be about to change.
    close_engine()
    show, out_of_memory = TrainingProgress(run, stage), []
    if is_simulated(spec.parent):
        return simulated.train(spec, show)

    def progress(entry: dict[str, Any]) -> None:
        out_of_memory.extend([entry[OUT_OF_MEMORY]] if OUT_OF_MEMORY in entry else [])
        if WARNING in entry:
            log.warning("stage %d: %s", stage, entry[WARNING])
        show(entry)

    log_path = run.log("training", stage)
    try:
        run_child(
            "policy.grpo.training",
            spec,
            spec.work / "spec.json",
            log_path,
            progress,
            python=vllm_python() if spec.trl.get("use_vllm") else sys.executable,
            launcher=launcher(spec.training, spec.trl),
            environment=one_gpu(spec.training),
        )
    except ChildError as error:
        if not out_of_memory:
            raise
        advice = memory_advice(out_of_memory[0], spec.trl, spec.training, last_checkpoint(spec.work))
        raise ChildError(f"stage {stage}: {advice}. The trainer's output is in {log_path}") from error


def one_gpu(training: TrainingSettings) -> dict[str, str]:
    """A single process sees the first GPU only: with several the trainer would wrap the model for all, which
    GRPO refuses."""
    if process_count(training) > 1:
        return {}
    return {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]}


@task(**task_options("evaluate-start"))
def evaluate_start(run: RunRef, validation: StepRecord) -> StepRecord:
    """Rollouts and breakdown of the base policy."""
    decides = _decides(run, validation, "model", run.identity(BASE_POLICY))

    def body() -> None:
        _evaluate(run, BASE_POLICY)
        run.write(BREAKDOWN, breakdown_of(run.preset.task, run.read(ROLLOUTS, BASE_POLICY)), BASE_POLICY)

    outputs = (ROLLOUTS.name, BREAKDOWN.name)
    return run_step(run.folder(BASE_POLICY), "start", decides, outputs, body, unfinished=PARTIAL_ROLLOUTS)


@task(**task_options("evaluate"))
def evaluate_stage(run: RunRef, stage: int, checkpoint: StepRecord, validation: StepRecord) -> StepRecord:
    """Rollouts of a stage's checkpoint on the validation set."""
    decides = _decides(run, validation, "checkpoint", checkpoint.outputs[CHECKPOINT])
    return run_step(
        run.folder(stage),
        "evaluate",
        decides,
        (ROLLOUTS.name,),
        lambda: _evaluate(run, stage),
        unfinished=PARTIAL_ROLLOUTS,
    )


def _decides(run: RunRef, validation: StepRecord, role: str, identity: str) -> dict[str, Any]:
    """What decides the answers of a policy."""
    preset = run.preset
    return {
        "validation": validation.key,
        role: identity,
        "answer": preset.max_answer_tokens,
        **preset.engine.decides,
    }


def _evaluate(run: RunRef, stage: int) -> None:
    preset, instances = run.preset, run.read(VALIDATION)
    model = answering(
        run.policy(stage),
        preset.task,
        instances,
        preset.prompt_style,
        preset.engine,
        run.log("engine", stage),
    )
    partial = run.folder(stage) / PARTIAL_ROLLOUTS
    answers = KeptAnswers(model, partial, {"model": run.identity(stage), **preset.engine.decides})
    progress = reporting(f"{run.folder(stage).name}: %d of {len(instances)} validation instances answered")
    sampling = Sampling(max_tokens=preset.max_answer_tokens)
    rollouts = evaluate(answers, preset.task, instances, preset.prompt_style, sampling, progress)
    run.write(ROLLOUTS, rollouts, stage, preset.prompt_style, preset.environment)


@task(**task_options("summarize"))
def summarize(run: RunRef, stage: int, rollouts: StepRecord) -> StepRecord:
    """The failure breakdown of a stage's rollouts, and the change against the policy that it started from."""
    parent = run.parent(stage)

    def body() -> None:
        run.write(BREAKDOWN, breakdown_of(run.preset.task, run.read(ROLLOUTS, stage)), stage)
        gains = valid_gains(run.read(ROLLOUTS, parent), run.read(ROLLOUTS, stage))
        run.write(CHANGES, Changes(valid=gains), stage)

    decides = {"rollouts": rollouts.outputs[ROLLOUTS.name], "before": run.digest(ROLLOUTS, parent)}
    return run_step(run.folder(stage), "summarize", decides, (BREAKDOWN.name, CHANGES.name), body)
