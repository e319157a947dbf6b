"""Train the policy of a stage and evaluate policies on the validation set and the test set."""

import os
import sys
from collections.abc import Callable
from typing import Any

from engineer.gate import BASE_POLICY
from envgen.breakdown import Breakdown, format_alarms
from envgen.errors import DataError
from envgen.files import digest
from envgen.seeds import seed_integer
from infra.config.preset import Preset
from infra.runs import files
from infra.runs.files import File
from infra.runs.run import Run
from infra.runs.steps import Stored
from policy.checkpoints import is_simulated
from policy.child import WARNING, run_child, vllm_python
from policy.evaluation import valid_gains
from policy.grpo.launch import checkpoint_form, launcher, process_count
from policy.grpo.train_spec import (
    CHECKPOINT,
    TrainingSettings,
    TrainSpec,
    deciding_options,
    last_checkpoint,
    resumed_steps,
)
from policy.rollouts import Rollout, breakdown_of
from tasks.record import TrainingProgress
from tasks.run import answering, close_engine, log, rollouts_of
from tasks.step import step


def _trained(run: Run, stage: int, *_: Any) -> dict[str, Any]:
    """What decides the weights of a stage, beside its data and the policy before it."""
    preset = run.preset
    return {
        "rewards": preset.rewards,
        "chat_template_kwargs": preset.chat_template_kwargs,
        "seed": seed_integer(preset.seed, stage, "train"),
        **deciding_options(_options(preset), preset.training, process_count(preset.training)),
    }


def _options(preset: Preset) -> dict[str, Any]:
    return {**preset.trl, "num_train_epochs": preset.epochs}


@step("train", CHECKPOINT, files.TRAINING_LOG, decides=_trained, unfinished=files.WORK)
def train(run: Run, stage: int, data: Stored, parent: Stored) -> dict[str, Any]:
    """GRPO in child processes from a policy: weights and training log."""
    preset, decides = run.preset, _trained(run, stage)
    # Its own for each key and form: nothing goes on from the trainer's checkpoints of other settings.
    key = digest([data.sha256, parent.sha256, decides])[:12]
    work = run.folder(stage) / files.WORK / f"{key}-{checkpoint_form(preset.training)}"
    spec = TrainSpec(
        parent=str(parent.path),
        data=data.path,
        output=run.folder(stage),
        work=work,
        environment=preset.environment,
        style=preset.prompt_style,
        chat_template_kwargs=preset.chat_template_kwargs,
        rewards=preset.rewards,
        trl=_options(preset),
        seed=decides["seed"],
        training=preset.training,
    )
    _train(run, stage, spec)
    steps = resumed_steps(work)
    return {files.RESUMED: steps} if steps else {}


def _train(run: Run, stage: int, spec: TrainSpec) -> None:
    close_engine()  # its memory is for the trainer, and what it has loaded may be about to change
    show = TrainingProgress(run, stage)
    if is_simulated(spec.parent):
        from policy import simulated

        return simulated.train(spec, show)

    def progress(entry: dict[str, Any]) -> None:
        if WARNING in entry:
            log.warning("stage %d: %s", stage, entry[WARNING])
        show(entry)

    if checkpoint := last_checkpoint(spec.work):
        log.info("stage %d: training continues from %s", stage, checkpoint.name)
    elif spec.work.exists():
        log.info("stage %d: training starts anew: no trainer checkpoint yet (training.save_minutes)", stage)
    run_child(
        "policy.grpo.training",
        spec,
        spec.work / "spec.json",
        run.log("training", stage),
        progress,
        python=vllm_python() if spec.trl.get("use_vllm") else sys.executable,
        launcher=launcher(spec.training, spec.trl),
        environment=one_gpu(spec.training),
    )


def one_gpu(training: TrainingSettings) -> dict[str, str]:
    """A single process sees the first GPU only: with several the trainer would wrap the model for all."""
    if process_count(training) > 1:
        return {}
    return {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]}


def _answered(run: Run, stage: int, *_: Any) -> dict[str, Any]:
    """What decides the answers of a policy, beside its weights and the questions."""
    preset = run.preset
    return {"answer": preset.max_answer_tokens, **_asked(preset), **preset.evaluation.decides}


def _asked(preset: Preset) -> dict[str, Any]:
    return {"chat_template_kwargs": preset.chat_template_kwargs, **preset.engine.decides}


def _evaluation(
    name: str, source: File[Any], file: File[Any], unfinished: str, *counts: File[Breakdown]
) -> Callable[..., Stored]:
    """Return the step that writes a policy's rollouts on a data set to `file`, and their counts."""

    @step(name, file, *counts, decides=_answered, unfinished=unfinished)
    def evaluate(run: Run, stage: int, policy: Stored, data: Stored) -> None:
        preset, style, how = run.preset, run.preset.prompt_style, run.preset.evaluation
        instances = source.read(data.path)
        asked = [instance for instance in instances for _ in range(how.samples)]
        engine = preset.engine, run.log("engine", stage), preset.chat_template_kwargs
        model = answering(str(policy.path), preset.task, instances, style, *engine)
        partial, decides = run.folder(stage) / unfinished, {"model": policy.sha256, **_asked(preset)}
        sampling = how.sampling(preset.max_answer_tokens)
        rollouts = rollouts_of(model, decides, partial, preset.task, asked, style, sampling)
        run.write(file, rollouts, stage, style, preset.environment)
        for counted in counts:
            run.write(counted, _breakdown(run, run.read(file, stage)), stage)

    return evaluate


_ON_VALIDATION = files.VALIDATION, files.ROLLOUTS, files.PARTIAL_ROLLOUTS
evaluate_start = _evaluation("start", *_ON_VALIDATION, files.BREAKDOWN)
"""Rollouts of the base policy on the validation set, and their breakdown."""
evaluate_stage = _evaluation("evaluate", *_ON_VALIDATION)
"""Rollouts of a stage's checkpoint on the validation set."""
evaluate_test = _evaluation("test", files.TEST, files.TEST_ROLLOUTS, files.PARTIAL_TEST_ROLLOUTS)
"""Rollouts of a stage's checkpoint, or of the base policy, on the test set."""


def _breakdown(run: Run, rollouts: list[Rollout]) -> Breakdown:
    return breakdown_of(run.preset.task, rollouts, run.preset.evaluation.samples)


def require_solved(run: Run) -> None:
    """DataError if the base policy solved no validation instance, unless the preset says to train anyway."""
    base = run.read(files.BREAKDOWN, BASE_POLICY).overall
    if base.valid or run.preset.unsolved == "train":
        return
    raise DataError(
        f"the base policy solves none of {base.instances} validation instances, and GRPO learns only from"
        " groups of answers whose rewards differ. Teach the policy first (envwright warmstart), make"
        " default_config and validation easier, or train anyway with --set unsolved=train, as for partial"
        " rewards"
    )


@step("summarize", files.BREAKDOWN, files.CHANGES)
def summarize(run: Run, stage: int, before: Stored, after: Stored) -> None:
    """Count the failures of a stage's rollouts, and the changes since its parent: returns the `Breakdown`."""
    rollouts = files.ROLLOUTS.read(after.path)
    breakdown = _breakdown(run, rollouts)
    for alarm in format_alarms(run.preset.space, breakdown).values():
        log.warning("stage %d: %s", stage, alarm)
    run.write(files.BREAKDOWN, breakdown, stage)
    changes = valid_gains(files.ROLLOUTS.read(before.path), rollouts, run.preset.evaluation.samples)
    run.write(files.CHANGES, changes, stage)
