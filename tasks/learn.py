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
from infra.runs.run import RunRef
from infra.runs.stage import RESUMED, Stage
from infra.runs.steps import StepRecord, run_step, step_key
from policy.chat.answers import KeptAnswers
from policy.chat.contract import Sampling
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
from tasks.run import close_engine, engine, log, reporting, task_options


@task(**task_options("train"))
def train(run: RunRef, stage: int, data: StepRecord, parent: int) -> StepRecord:
    """GRPO in child processes from the policy of stage `parent`: weights and training log."""
    preset, files = run.preset, run.stage(stage)
    options = {**preset.trl, "num_train_epochs": preset.epochs}
    decides = {
        "data": data.key,
        "parent": run.identity(parent),
        "rewards": preset.rewards,
        "seed": seed_integer(preset.stage_seed(stage), stage, "train"),
        **deciding_options(options, preset.training, process_count(preset.training)),
    }
    # Its own for each key and form: nothing goes on from the trainer's checkpoints of other settings.
    work = files.work / f"{step_key('train', decides)[:12]}-{checkpoint_form(preset.training)}"
    spec = TrainSpec(
        parent=run.policy(parent),
        data=files.path(Stage.train),
        output=files.directory,
        work=work,
        family=preset.family,
        style=preset.prompt_style,
        rewards=preset.rewards,
        trl=options,
        seed=decides["seed"],
        training=preset.training,
    )
    record = run_step(
        files.directory,
        "train",
        decides,
        (CHECKPOINT, Stage.train_log.name),
        lambda: _train(run, stage, spec),
        facts=lambda: _facts(work),
    )
    # Only now: until the record is written, the trainer's checkpoints are what a resume starts from.
    shutil.rmtree(files.work, ignore_errors=True)
    return record


def _facts(work: Path) -> dict[str, Any]:
    steps = resumed_steps(work)
    return {RESUMED: steps} if steps else {}


def _train(run: RunRef, stage: int, spec: TrainSpec) -> None:
    # Its memory is for the trainer, and what it has loaded may be about to change.
    close_engine()
    show, out_of_memory = TrainingProgress(run, stage), []

    def progress(entry: dict[str, Any]) -> None:
        out_of_memory.extend([entry[OUT_OF_MEMORY]] if OUT_OF_MEMORY in entry else [])
        if WARNING in entry:
            log.warning("stage %d: %s", stage, entry[WARNING])
        show(entry)

    log_path = run.stage(stage).log("training")
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
        run.start.write(Stage.breakdown, breakdown_of(run.preset.task, run.start.rollouts))

    outputs = (Stage.rollouts.name, Stage.breakdown.name)
    return run_step(run.start.directory, "start", decides, outputs, body, kept=run.start.partial.name)


@task(**task_options("evaluate"))
def evaluate_stage(run: RunRef, stage: int, checkpoint: StepRecord, validation: StepRecord) -> StepRecord:
    """Rollouts of a stage's checkpoint on the validation set."""
    files, decides = run.stage(stage), _decides(run, validation, "checkpoint", checkpoint.outputs[CHECKPOINT])
    outputs, kept = (Stage.rollouts.name,), files.partial.name
    return run_step(files.directory, "evaluate", decides, outputs, lambda: _evaluate(run, stage), kept=kept)


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
    preset, files, instances = run.preset, run.evaluation(stage), run.validation
    model = engine(run.policy(stage), preset.engine, files.log("engine"))
    kept = KeptAnswers(model, files.partial, {"model": run.identity(stage), **preset.engine.decides})
    progress = reporting(f"{files.directory.name}: %d of {len(instances)} validation instances answered")
    sampling = Sampling(max_tokens=preset.max_answer_tokens)
    found = evaluate(kept, preset.task, instances, preset.prompt_style, sampling, progress)
    files.write(Stage.rollouts, found, preset.prompt_style, preset.family)


@task(**task_options("summarize"))
def summarize(run: RunRef, stage: int, rollouts: StepRecord) -> StepRecord:
    """The failure breakdown of a stage's rollouts, and the change against the policy that it started from."""
    files, before = run.stage(stage), run.evaluation(run.parent(stage))

    def body() -> None:
        files.write(Stage.breakdown, breakdown_of(run.preset.task, files.rollouts))
        files.write(Stage.changes, Changes(valid=valid_gains(before.rollouts, files.rollouts)))

    decides = {"rollouts": rollouts.outputs[Stage.rollouts.name], "before": before.digest(Stage.rollouts)}
    return run_step(files.directory, "summarize", decides, (Stage.breakdown.name, Stage.changes.name), body)
