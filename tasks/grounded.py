"""The grounded score of a config: what a few optimizer steps on it change on the validation set."""

import shutil
from math import ceil
from pathlib import Path
from typing import Any

from envgen.config import EnvConfig
from envgen.dataset import write_dataset
from envgen.family import Source
from envgen.files import digest
from envgen.sampling import sample
from envgen.seeds import seed_integer
from infra.config.preset import Preset
from infra.runs.data import held_out
from infra.runs.run import Run, RunRef
from infra.runs.steps import run_step
from policy.chat.answers import KeptAnswers
from policy.chat.contract import Sampling
from policy.child import run_child
from policy.evaluation import evaluate, gains
from policy.grpo.batches import Batches, deciding_options
from policy.grpo.launch import launcher, process_count
from policy.grpo.pilot import Grounded, spread
from policy.grpo.train_log import read_train_log
from policy.grpo.train_spec import CHECKPOINT, TRAIN_LOG, TrainSpec
from tasks.data import environment
from tasks.learn import one_gpu
from tasks.run import close_engine, engine, reporting

FOLDER = "grounded"
"""Of a stage: data, checkpoint and answers of each config that is tried, until the pilot is done."""


def grounded_decides(preset: Preset) -> dict[str, Any]:
    """What decides grounded scores beside policy, validation set, seed and rewards; empty if there are
    none."""
    spec = preset.engineer
    if not spec.pilot_steps:
        return {}
    training = deciding_options(preset.trl, preset.training)
    amounts = [spec.pilot_steps, spec.pilot_validation, preset.max_answer_tokens]
    return {"grounded": {"amounts": amounts, **training}}


def ground(run: RunRef, stage: int, policy: int, config: EnvConfig) -> Grounded:
    """Train a copy of the policy for `engineer.pilot_steps` optimizer steps on a config, and evaluate it.

    Every instance is used once; the learning rate follows its schedule over these few steps. The change is
    measured on `engineer.pilot_validation` instances of the validation set (SOAR, arXiv 2601.18778). What was
    trained and answered before the process was cut off is kept in `FOLDER`. Raises ChildError, ModelError and
    SamplingError."""
    preset, files = run.preset, run.stage(stage)
    folder = files.directory / FOLDER / digest(config)[:12]
    decides = {
        "config": config,
        "policy": run.identity(policy),
        "validation": run.digest(Run.validation),
        "rewards": preset.rewards,
        "seed": preset.seed,
        **environment(preset),
        **grounded_decides(preset),
    }
    trained = run_step(
        folder,
        "grounded",
        decides,
        (CHECKPOINT, TRAIN_LOG),
        lambda: _train(run, stage, policy, config, folder),
    )
    before = spread(run.evaluation(policy).rollouts, preset.engineer.pilot_validation)
    model = engine(str(folder / CHECKPOINT), preset.engine, files.log("engine"))
    kept = KeptAnswers(
        model, folder / "rollouts.partial.jsonl", {"model": trained.key, **preset.engine.decides}
    )
    after = evaluate(
        kept,
        preset.task,
        [one.instance for one in before],
        preset.prompt_style,
        Sampling(max_tokens=preset.max_answer_tokens),
        reporting(f"stage {stage}: grounded pilot: %d of {len(before)} validation instances answered"),
    )
    steps = read_train_log(folder / TRAIN_LOG)["completion_tokens"]
    return Grounded(
        steps=preset.engineer.pilot_steps,
        instances=len(before),
        valid=gains(before, after)[0],
        completion_tokens=sum(steps) + sum(one.completion_tokens for one in after),
    )


def _train(run: RunRef, stage: int, policy: int, config: EnvConfig, folder: Path) -> None:
    preset, files = run.preset, run.stage(stage)
    batches = Batches.of(preset.trl, process_count(preset.training))
    generations = ceil(
        preset.engineer.pilot_steps * batches.accumulation / (batches.per_generation * batches.iterations)
    )
    source = Source(preset.seed, stage, "grounded")
    count = batches.prompts * generations
    instances, _ = sample(preset.task, config, count, source, held_out(run))
    spec = TrainSpec(
        parent=run.policy(policy),
        data=folder / "train.parquet",
        output=folder,
        work=folder / "work",
        family=preset.family,
        style=preset.prompt_style,
        rewards=preset.rewards,
        trl={**preset.trl, "max_steps": preset.engineer.pilot_steps},
        seed=seed_integer(preset.seed, stage, "grounded"),
        training=preset.training,
    )
    write_dataset(spec.data, instances, preset.prompt_style, {"config": config}, preset.family)
    close_engine()  # its memory is for the trainer
    run_child(
        "policy.grpo.training",
        spec,
        spec.work / "spec.json",
        files.log(FOLDER),
        lambda entry: None,
        launcher=launcher(spec.training, spec.trl),
        environment=one_gpu(spec.training),
    )
    shutil.rmtree(spec.work)


def forget_grounded(run: RunRef, stage: int) -> None:
    """Remove what grounded scores were made from, once they are stored."""
    folder = run.stage(stage).directory / FOLDER
    if folder.exists():
        close_engine()  # it may answer with weights from there
        shutil.rmtree(folder)
