"""Ask the designer for the next environment config."""

import json
from functools import lru_cache
from typing import Any

from prefect import task

from engineer.answer import MAX_RATIONALE
from engineer.context import DesignContext, StageRecord
from engineer.designers import design, kept
from engineer.gate import START, GateDecision
from engineer.proposal import Proposal
from engineer.registry import find_designer
from envgen.config import EnvConfig
from envgen.files import write_json
from envgen.frozen import Frozen
from envgen.sampler import attainable
from infra.preset import Preset
from infra.runs.decision import PROPOSAL, read_decision
from infra.runs.steps import StepRecord, run_step
from infra.settings import Settings
from policy.train_log import mean_advantages, read_train_log, zero_variance_shares
from policy.train_spec import answer_tokens, group_size
from tasks.data import held_out
from tasks.gate import config_of, read_gate
from tasks.learn import read_breakdown, read_changes
from tasks.run import RunRef, engine, log, parent_stage, policy_identity, task_options

CANDIDATES, STATE = "candidates.json", "designer_state.json"


class Candidate(Frozen):
    """A proposal, and what its designer remembers if it is chosen."""

    proposal: Proposal
    state: dict[str, Any]


class Candidates(Frozen):
    """All that was proposed after a stage, in the order drawn."""

    candidates: tuple[Candidate, ...]

    @property
    def configs(self) -> list[EnvConfig]:
        """The different configs among them, in order of their first proposal."""
        found: list[EnvConfig] = []
        for candidate in self.candidates:
            if candidate.proposal.config not in found:
                found.append(candidate.proposal.config)
        return found


_OF_THE_MACHINE = ("hub_", "push_", "logging_", "log_", "save_", "run_name", "vllm_", "dataloader_", "deepspeed", "fsdp", "model_init_kwargs")
"""Beginnings of options that say where training runs and what it leaves behind, not how the policy learns; some hold secrets."""


@task(**task_options("engineer"))
def engineer(run: RunRef, stage: int, breakdown: StepRecord, gate: StepRecord) -> StepRecord:
    """Write `candidates.json`: what the designer proposes for the next stage. Drawn once; a repeated call finds it."""
    preset, directory = run.preset, run.stage(stage)
    context, decision = design_context(run, stage), read_gate(run, stage)

    def body() -> None:
        proposals = _proposals(run, context, decision)
        for number, proposal in enumerate(proposals, start=1):
            name = f"candidate {number}" if len(proposals) > 1 else proposal.designer
            log.info("stage %d: %s proposes: %s", stage, name, proposal.fallback or proposal.rationale or "(no reason given)")
            for cut in proposal.cuts:
                log.info("stage %d: left out of the prompt: %s", stage, cut)
            for change in proposal.changes:
                log.info("stage %d: projection: %s", stage, change)
        write_json(directory / CANDIDATES, Candidates(candidates=tuple(Candidate(proposal=p, state=p.state) for p in proposals)))

    # Without the number of stages: extending a run must not redraw what was proposed.
    decides = {
        "context": context.model_copy(update={"stages": 1}),
        "breakdown": breakdown.key,
        "gate": gate.key,
        "design": preset.asked_design(),
        "model": policy_identity(run, asked) if (asked := _asked(run, stage)) is not None else None,
        "seed": preset.seed,
    }
    return run_step(directory, "engineer", decides, (CANDIDATES,), body)


def _proposals(run: RunRef, context: DesignContext, decision: GateDecision) -> list[Proposal]:
    preset, stage, asked = run.preset, decision.stage, _asked(run, decision.stage)
    spec = preset.asked_design()
    if decision.action != "go-on":
        return [kept(spec, context, config_of(run, decision.against), f"by the gate: {decision.reason}")]

    @lru_cache  # several candidates may be one config
    def fit(config_json: str) -> tuple[EnvConfig, list[str]]:
        return possible(run, stage + 1, EnvConfig.model_validate_json(config_json))

    model = None if asked is None else engine(run.policy(asked), preset.engine, run.stage(stage) / "logs" / "engine.log")
    return [design(spec, context, preset.seed, model, lambda config: fit(config.model_dump_json()), candidate) for candidate in range(preset.design.candidates)]


def possible(run: RunRef, stage: int, config: EnvConfig) -> tuple[EnvConfig, list[str]]:
    """The config nearest to `config` of which the instances of a stage can be drawn, and what was changed."""
    preset = run.preset
    return attainable(config, preset.instances, agents=preset.agents, seed=preset.seed, stage=stage, held_out=held_out(run), workers=Settings().workers)


def _asked(run: RunRef, stage: int) -> int | None:
    """The stage whose policy the designer asks, -1 for the start policy; None if it asks none."""
    return {"checkpoint": stage, "base": START}.get(find_designer(run.preset.design.designer).asks or "")


def read_candidates(run: RunRef, stage: int) -> Candidates:
    """What was proposed after a finished stage."""
    return Candidates.model_validate_json((run.stage(stage) / CANDIDATES).read_bytes())


def read_proposal(run: RunRef, stage: int) -> Proposal:
    """The proposal that a finished stage wrote."""
    return Proposal.model_validate_json((run.stage(stage) / PROPOSAL).read_bytes())


def read_state(run: RunRef, stage: int) -> dict[str, Any]:
    """What the designer wanted back after a finished stage."""
    return json.loads((run.stage(stage) / STATE).read_bytes())


def design_context(run: RunRef, stage: int) -> DesignContext:
    """What the designer may read after a stage."""
    records = [_record(run, number) for number in range(stage + 1)]
    return DesignContext(
        space=run.preset.space,
        current=records[-1],
        history=tuple(records[:-1]),
        state=read_state(run, stage - 1) if stage else {},
        previous_rationale=_rationale(run, stage - 1) if stage else "",
        stages=run.preset.stages,
        instances=run.preset.instances,
        epochs=run.preset.epochs,
        training=training_facts(run.preset),
    )


def _rationale(run: RunRef, stage: int) -> str:
    """Why the stage after `stage` got its config: the designer's words, or those of the person who decided otherwise."""
    decision = read_decision(run.stage(stage))
    if decision is None or (decision.decision == "approve" and not decision.edited):
        return read_proposal(run, stage).rationale
    done = "edited the proposed config" if decision.edited else "kept the config before"
    return f"A person {done}{f': {decision.comment}' if decision.comment else '.'}"[:MAX_RATIONALE]


def training_facts(preset: Preset) -> dict[str, Any]:
    """How a preset trains, as plain JSON values that a prompt may show. What TRL decides by default is left out."""
    options = {name: value for name, value in preset.model_dump(mode="json")["trl"].items() if not name.startswith(_OF_THE_MACHINE)}
    for shown in ("num_generations", "max_completion_length"):
        options.pop(shown, None)
    rate = {"learning_rate": options.pop("learning_rate")} if "learning_rate" in options else {}
    return {
        "algorithm": "GRPO",
        "agents": preset.agents,
        "group_size": group_size(preset.trl),
        **rate,
        "answer_tokens": answer_tokens(preset.trl),
        "reward": {term: weight for term, weight in preset.rewards if weight},
        "hyperparameters": options,
    }


def _record(run: RunRef, stage: int) -> StageRecord:
    log = read_train_log(run.stage(stage) / "train_log.parquet")
    return StageRecord(
        stage=stage,
        parent=parent_stage(run, stage),
        config=config_of(run, stage),
        breakdown=read_breakdown(run.stage(stage)),
        advantage=mean_advantages(log),
        zero_variance=zero_variance_shares(log),
        change=read_changes(run.stage(stage)),
    )
