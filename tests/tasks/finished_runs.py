"""Run directories of finished curricula, made without training."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from engineer.proposal import Attempt, Proposal
from envgen.config import EnvConfig, SizeConfig
from envgen.dataset import write_dataset, write_table
from envgen.files import write_json
from envgen.problem import Instance
from envgen.prompts import PromptStyle, answer
from envgen.sampler import sample
from envgen.verifier import verify
from infra.preset import Preset, load_preset
from infra.runs.run import Curriculum, open_run
from infra.runs.steps import StepRecord
from policy.rollouts import Rollout, breakdown_of, write_rollouts
from policy.train_log import TRAIN_LOG_SCHEMA
from tasks.design import Candidate, Candidates
from tasks.gate import judge
from tasks.pilot import Pilots
from tasks.run import RunRef

MICRO = load_preset("micro")


def shares(small: float) -> EnvConfig:
    return EnvConfig(sizes={s: SizeConfig(data_ratio=share, hole_ratio=0.2, wait_ratio=0.25) for s, share in ((3, small), (4, 1 - small))})


def asked(stage: int, config: EnvConfig, **more: object) -> Proposal:
    """What the checkpoint answered: one unreadable answer, then one that was read."""
    attempts = (
        Attempt.model_validate({"text": "{", "finish_reason": "length", "error": "no JSON", **_noted(stage, 0), "seconds": 1.5}),
        Attempt.model_validate({"text": '{"rationale": "easier"}', "finish_reason": "stop", **_noted(stage, 2), "seconds": 0.5}),
    )
    fields = {"stage": stage, "designer": "checkpoint", "variant": "V6", "prompt": f"Design after stage {stage}.", "attempts": attempts, "config": config}
    return Proposal.model_validate({**fields, "rationale": "easier", "prompt_tokens": 30, "completion_tokens": 12, "changes": ("shares were scaled",), **more})


def _noted(stage: int, second: int) -> dict[str, object]:
    return {"started": f"2026-01-02T03:0{stage}:0{second}Z", "prompt_tokens": 15, "completion_tokens": 6}


def rollouts(instances: list[Instance], correct: int) -> list[Rollout]:
    """The first `correct` of every ten answers are optimal, the others empty."""
    texts = [answer(instance.solution.plan) if n % 10 < correct else "" for n, instance in enumerate(instances)]
    return [Rollout(instance=i, completion=t, completion_tokens=3, truncated=False, verdict=verify(i, t)) for i, t in zip(instances, texts, strict=True)]


def instances(seed: int = 3, agents: int = 2) -> list[Instance]:
    return sample(shares(0.5), 20, agents=agents, seed=seed, purpose="validation")[0]


def finished_run(
    directory: Path, correct: tuple[int, ...], preset: Preset = MICRO, validation: list[Instance] | None = None, proposals: tuple[Proposal, ...] = ()
) -> tuple[RunRef, Curriculum]:
    """A curriculum whose evaluations solve `correct` of every ten instances: the start policy's first, then one a stage."""
    preset = preset.model_copy(update={"stages": len(correct) - 1})
    curriculum, run, validation = open_run(directory, preset), RunRef(directory=directory, preset=preset), validation or instances()
    write_dataset(run.validation, validation, PromptStyle.COMPACT, {})
    _evaluated(run.start, rollouts(validation, correct[0]))
    for stage, right in enumerate(correct[1:]):
        folder = run.stage(stage)
        _evaluated(folder, rollouts(validation, right))
        config, following = (shares(0.5 + number / 10) for number in (stage, stage + 1))
        write_json(folder / "config.json", config)
        write_dataset(folder / "train.parquet", validation[:8], PromptStyle.COMPACT, {"stage": stage})
        write_json(folder / "checkpoint" / "config.json", {"weights": [directory.name, stage]})
        write_table(folder / "train_log.parquet", pa.table(_log()).cast(TRAIN_LOG_SCHEMA))
        chosen = proposals[stage] if proposals else asked(stage, following)
        write_json(folder / "candidates.json", Candidates(candidates=tuple(Candidate(proposal=p, state={}) for p in (asked(stage, config), chosen))))
        write_json(folder / "proposal.json", chosen)
        write_json(folder / "pilot.json", Pilots(pilots=()))
        judge.fn(run, stage, StepRecord(step="evaluate", key="", outputs={"rollouts.parquet": ""}, seconds=0))
        write_json(folder / "manifest.json", {"stage": stage})
    for name in ("results.json", "report.html"):
        (directory / name).write_text("{}")
    return run, curriculum


def _evaluated(folder: Path, found: list[Rollout]) -> None:
    write_rollouts(folder / "rollouts.parquet", found, PromptStyle.COMPACT)
    write_json(folder / "breakdown.json", breakdown_of(found))


def _log() -> dict[str, np.ndarray]:
    return {name: np.linspace(0, 1, 5) for name in TRAIN_LOG_SCHEMA.names} | {name: np.arange(1, 6) for name in ("step", "completion_tokens")}
