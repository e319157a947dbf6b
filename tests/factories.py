"""Run directories of finished curricula, made without training."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from support.boards import boards_config, sample_boards

from engineer.contract import Attempt, Proposal
from engineer.gate import BASE_POLICY
from envgen.config import EnvConfig
from envgen.dataset import write_table
from envgen.files import write_json
from envgen.mapf.problem import Instance
from envgen.mapf.prompts import answer
from envgen.mapf.verifier import verify
from infra.config.preset import Preset, load_preset
from infra.runs import files
from infra.runs.run import Run, open_run
from policy.grpo.train_log import TRAIN_LOG_SCHEMA
from policy.rollouts import Rollout, breakdown_of
from tasks.design import judge
from tasks.learn import summarize
from tasks.publish import results_with

MICRO = load_preset("micro")


def shares(small: float) -> EnvConfig:
    return boards_config({3: (small, 0.2, 0.25), 4: (1 - small, 0.2, 0.25)})


def asked(stage: int, config: EnvConfig, **more: object) -> Proposal:
    """What the checkpoint answered: one unreadable answer, then one that was read."""
    noted = {"prompt_tokens": 15, "completion_tokens": 6, "seconds": 1.5}
    texts = (("{", "length", "no JSON"), ('{"rationale": "easier"}', "stop", None))
    attempts = tuple(
        Attempt(text=text, finish_reason=end, error=error, started=f"2026-01-02T03:0{stage}:0{n}Z", **noted)
        for n, (text, end, error) in enumerate(texts)
    )
    asked = {"engineer": "checkpoint", "context": "V6", "prompt": f"Design after stage {stage}."}
    tokens = {"prompt_tokens": 30, "completion_tokens": 12}
    said = {"rationale": "easier", "changes": ("shares were scaled",), "attempts": attempts, "config": config}
    return Proposal.model_validate({"stage": stage, **asked, **tokens, **said, **more})


def rollout(instance: Any, text: str, verdict: Any = None, **more: Any) -> Rollout:
    """An answer of three tokens; its verdict is found for a board."""
    fields = {"completion": text, "completion_tokens": 3, "truncated": False, **more}
    return Rollout(instance=instance, verdict=verdict or verify(instance, text), **fields)


def rollouts(instances: list[Instance], correct: int) -> list[Rollout]:
    """The first `correct` of every ten answers are optimal, the others empty."""
    return [
        rollout(instance, answer(instance.solution.plan) if n % 10 < correct else "")
        for n, instance in enumerate(instances)
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
    style, environment = preset.prompt_style, preset.environment
    run.write(files.VALIDATION, validation, None, style, {}, environment)
    run.write(files.ROLLOUTS, answers(validation, correct[0]), BASE_POLICY, style, environment)
    start = breakdown_of(preset.task, run.read(files.ROLLOUTS, BASE_POLICY), preset.evaluation.samples)
    run.write(files.BREAKDOWN, start, BASE_POLICY)
    for number, right in enumerate(correct if test else (), start=BASE_POLICY):
        run.write(files.TEST_ROLLOUTS, answers(test or [], right), number, style, environment)
    for number, right in enumerate(correct[1:]):
        config = configs[number]
        run.write(files.CONFIG, config, number)
        run.write(files.TRAIN_DATA, validation[:8], number, style, {"stage": number}, environment)
        write_json(run.checkpoint(number) / "config.json", {"weights": [directory.name, number]})
        write_table(run.path(files.TRAINING_LOG, number), _log().cast(TRAIN_LOG_SCHEMA))
        run.write(files.ROLLOUTS, answers(validation, right), number, style, environment)
        chosen = proposals[number] if proposals else asked(number, configs[number + 1])
        run.write(files.PROPOSAL, chosen, number)
        run.write(files.ENGINEER_STATE, {}, number)
        summarize.fn(run, number, run.evaluation(run.parent(number)), run.evaluation(number))
        judge.fn(run, number, run.evaluation(run.best(number - 1)), run.evaluation(number))
        run.write(files.MANIFEST, {"stage": number, "seconds": {}}, number)
    for file in (files.RESULTS, files.REPORT):
        run.path(file).write_text("{}")
    return run


def with_results(run: Run, **manifest: object) -> Run:
    """The run with results of its stages, and these fields in their manifests."""
    for number in range(run.preset.stages):
        run.write(files.MANIFEST, run.read(files.MANIFEST, number) | manifest, number)
    run.write(files.RESULTS, results_with(run, run.preset.stages - 1))
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
