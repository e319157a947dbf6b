"""What the engineer of a run may read after a stage."""

from collections.abc import Collection
from itertools import chain
from typing import Any

from engineer.answer import MAX_RATIONALE
from engineer.context import DesignContext, FailedAnswer, StageRecord
from envgen.breakdown import Breakdown
from infra.config.preset import Preset
from infra.runs.files import BREAKDOWN, CHANGES, CONFIG, ENGINEER_STATE, PROPOSAL, TRAINING_LOG
from infra.runs.run import Run
from policy.grpo.train_log import some_failed, stratum_means
from policy.grpo.train_spec import answer_tokens, group_size

_OF_THE_MACHINE = (
    *("hub_", "push_", "logging_", "log_", "save_", "run_name", "vllm_", "dataloader_", "deepspeed", "fsdp"),
    "model_init_kwargs",
)
"""Beginnings of options that say where training runs and what it leaves behind; some hold secrets."""


def design_context(run: Run, stage: int, breakdown: Breakdown) -> DesignContext:
    """What the engineer may read after a stage with this breakdown."""
    failed = run.read(TRAINING_LOG, stage)["failed"]
    return DesignContext(
        space=run.preset.space,
        current=_record(run, stage, breakdown),
        history=tuple(_record(run, number, run.read(BREAKDOWN, number)) for number in range(stage)),
        state=run.read(ENGINEER_STATE, stage - 1) if stage else {},
        previous_rationale=_rationale(run, stage - 1) if stage else "",
        stages=run.preset.stages,
        instances=run.preset.instances,
        epochs=run.preset.epochs,
        training=training_facts(run.preset),
        examples=tuple(map(FailedAnswer.model_validate, some_failed([*chain.from_iterable(failed)]))),
    )


def _rationale(run: Run, stage: int) -> str:
    """Why the next stage got its config: in the words of the engineer, or of who decided otherwise."""
    decision = run.decision(stage)
    if decision is None or (decision.decision == "approve" and not decision.edited):
        return run.read(PROPOSAL, stage).rationale
    done = "edited the proposed config" if decision.edited else "kept the config before"
    return f"A person {done}{f': {decision.comment}' if decision.comment else '.'}"[:MAX_RATIONALE]


def training_facts(preset: Preset, without: Collection[str] = ()) -> dict[str, Any]:
    """How a preset trains, as JSON values that a prompt may show, without TRL's defaults and `without`."""
    left_out = {"num_generations", "max_completion_length", "learning_rate", *without}
    options = preset.model_dump(mode="json")["trl"]
    others = [name for name in options if name not in left_out and not name.startswith(_OF_THE_MACHINE)]
    return {
        "algorithm": "GRPO",
        "group_size": group_size(preset.trl),
        **{name: value for name, value in options.items() if name == "learning_rate"},
        "answer_tokens": answer_tokens(preset.trl),
        "reward": {term: weight for term, weight in preset.rewards.weights.items() if weight},
        "hyperparameters": {name: options[name] for name in others},
    }


def _record(run: Run, number: int, breakdown: Breakdown) -> StageRecord:
    log = run.read(TRAINING_LOG, number)
    return StageRecord(
        stage=number,
        parent=run.parent(number),
        config=run.read(CONFIG, number),
        breakdown=breakdown,
        advantage=stratum_means(log, "advantage"),
        zero_variance=stratum_means(log, "zero_variance"),
        change=run.read(CHANGES, number),
    )
