"""Ask the designer for the next environment config."""

import json
from typing import Any

from prefect import task

from engineer.context import DesignContext, StageRecord
from engineer.designers import design
from engineer.proposal import Proposal
from engineer.registry import find_designer
from envgen.config import EnvConfig
from envgen.files import write_json
from envgen.sampler import attainable
from infra.preset import Preset
from infra.settings import Settings
from infra.steps import StepRecord, run_step
from policy.train_log import mean_advantages, read_train_log
from tasks.data import held_out
from tasks.learn import read_breakdown
from tasks.run import RunRef, engine, log, task_options

_OF_THE_MACHINE = ("hub_", "push_", "logging_", "log_", "save_", "run_name", "vllm_", "dataloader_", "deepspeed", "fsdp", "model_init_kwargs")
"""Beginnings of options that say where training runs and what it leaves behind, not how the policy learns; some hold secrets."""
PROPOSAL, STATE = "proposal.json", "designer_state.json"


@task(**task_options("engineer"))
def engineer(run: RunRef, stage: int, breakdown: StepRecord) -> StepRecord:
    """Write `proposal.json`, the config of the next stage, and `designer_state.json`. Drawn once; a repeated call finds both.

    The state follows from the context, which holds the state of the stage before: a step that was cut off between its two
    files is not done, and its repetition starts from the same state.
    """
    preset, directory = run.preset, run.stage(stage)
    context = design_context(run, stage)

    def fit(config: EnvConfig) -> tuple[EnvConfig, list[str]]:
        return attainable(config, preset.instances, agents=preset.agents, seed=preset.seed, stage=stage + 1, held_out=held_out(run), workers=Settings().workers)

    def body() -> None:
        source = {"checkpoint": str(directory / "checkpoint"), "base": run.policy_before(0)}.get(find_designer(preset.design.designer).asks or "")
        model = engine(source, preset.engine, directory / "logs" / "engine.log") if source else None
        proposal = design(preset.design, context, preset.seed, model, fit)
        log.info("stage %d: %s proposes: %s", stage, proposal.designer, proposal.fallback or proposal.rationale or "(no reason given)")
        for cut in proposal.cuts:
            log.info("stage %d: left out of the prompt: %s", stage, cut)
        for change in proposal.changes:
            log.info("stage %d: projection: %s", stage, change)
        write_json(directory / PROPOSAL, proposal)
        write_json(directory / STATE, proposal.state)

    # Without the number of stages: extending a run must not redraw what was proposed.
    decides = {"context": context.model_copy(update={"stages": 1}), "breakdown": breakdown.key, "design": preset.design, "seed": preset.seed}
    return run_step(directory, "engineer", decides, (PROPOSAL, STATE), body)


def read_proposal(run: RunRef, stage: int) -> Proposal:
    """The proposal that a finished stage wrote."""
    return Proposal.model_validate_json((run.stage(stage) / PROPOSAL).read_bytes())


def read_state(run: RunRef, stage: int) -> dict[str, Any]:
    """What the designer wanted back after a finished stage."""
    return json.loads((run.stage(stage) / STATE).read_bytes())


def design_context(run: RunRef, stage: int) -> DesignContext:
    """What the designer may read after a stage."""
    records = [
        StageRecord(
            stage=n,
            config=EnvConfig.model_validate_json((run.stage(n) / "config.json").read_bytes()),
            breakdown=read_breakdown(run.stage(n)),
            advantage=_advantage(run, n),
        )
        for n in range(stage + 1)
    ]
    return DesignContext(
        space=run.preset.space,
        current=records[-1],
        history=tuple(records[:-1]),
        state=read_state(run, stage - 1) if stage else {},
        previous_rationale=read_proposal(run, stage - 1).rationale if stage else "",
        stages=run.preset.stages,
        instances=run.preset.instances,
        epochs=run.preset.epochs,
        training=training_facts(run.preset),
    )


def training_facts(preset: Preset) -> dict[str, Any]:
    """How a preset trains, as plain JSON values that a prompt may show. What TRL decides by default is left out."""
    options = {name: value for name, value in preset.model_dump(mode="json")["trl"].items() if not name.startswith(_OF_THE_MACHINE)}
    named = {"group_size": options.pop("num_generations", None), "learning_rate": options.pop("learning_rate", None)}
    return {
        "algorithm": "GRPO",
        "agents": preset.agents,
        **{name: value for name, value in named.items() if value is not None},
        "answer_tokens": preset.max_answer_tokens,
        "reward": {term: weight for term, weight in preset.rewards if weight},
        "hyperparameters": options,
    }


def _advantage(run: RunRef, stage: int) -> dict[int, float]:
    return mean_advantages(read_train_log(run.stage(stage) / "train_log.parquet"))
