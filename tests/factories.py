"""Run directories of finished curricula, made without training."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from support.boards import sample_boards

from engineer.gate import BASE_POLICY
from engineer.proposal import Attempt, Proposal
from envgen.config import EnvConfig
from envgen.dataset import write_table
from envgen.files import write_json
from envgen.mapf.problem import Instance
from envgen.mapf.prompts import answer
from envgen.mapf.verifier import verify
from infra.config.preset import Preset, load_preset
from infra.runs.files import (
    BREAKDOWN,
    CONFIG,
    ENGINEER_STATE,
    MANIFEST,
    PROPOSAL,
    REPORT,
    RESULTS,
    ROLLOUTS,
    TEST_ROLLOUTS,
    TRAIN_DATA,
    TRAINING_LOG,
    VALIDATION,
)
from infra.runs.run import Run, open_run
from policy.grpo.train_log import TRAIN_LOG_SCHEMA
from policy.rollouts import Rollout, breakdown_of
from tasks.design import judge
from tasks.learn import summarize
from tasks.publish import results_with

MICRO = load_preset("micro")


def shares(small: float) -> EnvConfig:
    parts = {
        size: {"data_ratio": share, "hole_ratio": 0.2, "wait_ratio": 0.25}
        for size, share in (("3", small), ("4", 1 - small))
    }
    return EnvConfig.model_validate({"sizes": parts})


def asked(stage: int, config: EnvConfig, **more: object) -> Proposal:
    """What the checkpoint answered: one unreadable answer, then one that was read."""
    attempts = (
        Attempt.model_validate(
            {"text": "{", "finish_reason": "length", "error": "no JSON", **_noted(stage, 0), "seconds": 1.5}
        ),
        Attempt.model_validate(
            {"text": '{"rationale": "easier"}', "finish_reason": "stop", **_noted(stage, 2), "seconds": 0.5}
        ),
    )
    fields = {
        "stage": stage,
        "engineer": "checkpoint",
        "context": "V6",
        "prompt": f"Design after stage {stage}.",
        "attempts": attempts,
        "config": config,
    }
    return Proposal.model_validate(
        {
            **fields,
            "rationale": "easier",
            "prompt_tokens": 30,
            "completion_tokens": 12,
            "changes": ("shares were scaled",),
            **more,
        }
    )


def _noted(stage: int, second: int) -> dict[str, object]:
    return {"started": f"2026-01-02T03:0{stage}:0{second}Z", "prompt_tokens": 15, "completion_tokens": 6}


def rollouts(instances: list[Instance], correct: int) -> list[Rollout]:
    """The first `correct` of every ten answers are optimal, the others empty."""
    texts = [
        answer(instance.solution.plan) if n % 10 < correct else "" for n, instance in enumerate(instances)
    ]
    return [
        Rollout(instance=i, completion=t, completion_tokens=3, truncated=False, verdict=verify(i, t))
        for i, t in zip(instances, texts, strict=True)
    ]


def instances(seed: int = 3, agents: int = 2) -> list[Instance]:
    return sample_boards(shares(0.5), 20, agents=agents, seed=seed, purpose="validation")


def finished_run(
    directory: Path,
    correct: tuple[int, ...],
    preset: Preset = MICRO,
    validation: list[Instance] | None = None,
    proposals: tuple[Proposal, ...] = (),
    configs: tuple[EnvConfig, ...] = (),
    answers: Callable[[list[Any], int], list[Rollout]] = rollouts,
    test: list[Instance] | None = None,
) -> Run:
    """A curriculum whose evaluations solve `correct` of every ten instances: the base policy's first, then
    one a stage."""
    preset = preset.model_copy(update={"stages": len(correct) - 1})
    open_run(directory, preset)
    run, validation = Run(directory=directory, chosen=preset), validation or instances()
    configs = configs or tuple(shares(0.5 + number / 10) for number in range(len(correct)))
    run.write(VALIDATION, validation, None, preset.prompt_style, {}, preset.environment)
    run.write(ROLLOUTS, answers(validation, correct[0]), BASE_POLICY, preset.prompt_style, preset.environment)
    start = breakdown_of(preset.task, run.read(ROLLOUTS, BASE_POLICY), preset.evaluation.samples)
    run.write(BREAKDOWN, start, BASE_POLICY)
    for number, right in enumerate(correct if test else (), start=BASE_POLICY):
        run.write(TEST_ROLLOUTS, answers(test or [], right), number, preset.prompt_style, preset.environment)
    for number, right in enumerate(correct[1:]):
        config = configs[number]
        run.write(CONFIG, config, number)
        run.write(
            TRAIN_DATA, validation[:8], number, preset.prompt_style, {"stage": number}, preset.environment
        )
        write_json(run.checkpoint(number) / "config.json", {"weights": [directory.name, number]})
        write_table(run.path(TRAINING_LOG, number), _log().cast(TRAIN_LOG_SCHEMA))
        run.write(ROLLOUTS, answers(validation, right), number, preset.prompt_style, preset.environment)
        chosen = proposals[number] if proposals else asked(number, configs[number + 1])
        run.write(PROPOSAL, chosen, number)
        run.write(ENGINEER_STATE, {}, number)
        summarize.fn(run, number, run.evaluation(run.parent(number)), run.evaluation(number))
        judge.fn(run, number, run.evaluation(run.best(number - 1)), run.evaluation(number))
        run.write(MANIFEST, {"stage": number, "seconds": {}}, number)
    for file in (RESULTS, REPORT):
        run.path(file).write_text("{}")
    return run


def with_results(run: Run, **manifest: object) -> Run:
    """The run with results of its stages, and these fields in their manifests."""
    for number in range(run.preset.stages):
        run.write(MANIFEST, run.read(MANIFEST, number) | manifest, number)
        run.write(RESULTS, results_with(run, number))
    return run


def published(directory: Path, stages: int, of: int, approval: str | None = None) -> Run:
    """Return a run of `of` stages, `stages` of which are complete."""
    asked = MICRO.model_copy(update={"approval": approval})
    run = finished_run(directory, (4, *range(5, 5 + stages)), asked)
    with_results(run, seconds={"train": 60.0}, tokens={"training": 500})
    whole: Preset = asked.model_copy(update={"stages": of})
    return open_run(directory, whole)


def _log() -> pa.Table:
    numbers = {name: np.linspace(0, 1, 5) for name in TRAIN_LOG_SCHEMA.names} | {
        name: np.arange(1, 6) for name in ("step", "completion_tokens")
    }
    lists = {name: pa.array([[]] * 5, TRAIN_LOG_SCHEMA.field(name).type) for name in ("strata", "failed")}
    return pa.table({**numbers, **lists})
