"""Run directories of curricula that never ran, with hostile answers in them, for the tests of reports."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from engineer.behaviour import proposal_behaviour
from engineer.gate import BASE_POLICY, decide
from engineer.proposal import Proposal
from envgen.breakdown import Difference, paired_difference
from envgen.config import EnvConfig
from envgen.dataset import write_table
from envgen.files import write_json
from envgen.mapf.problem import Instance
from envgen.mapf.prompts import answer
from envgen.mapf.verifier import verify
from infra.config.preset import Preset, load_preset
from infra.runs.results import CurriculumResults, StageResult, TrainingSummary
from infra.runs.run import new_curriculum
from infra.runs.steps import stage_directory
from policy.grpo.train_log import TRAIN_LOG_SCHEMA
from policy.rollouts import Rollout, breakdown_of, write_rollouts

HOSTILE = "<script>alert(1)</script><img src=https://evil.example/x onerror=alert(2)>\"'></pre></style>"
SIZES = ("3", "4", "5")
TINY = load_preset("tiny")


def env_config(shares: dict[str, float], hole_ratio: float = 0.2) -> EnvConfig:
    return EnvConfig.model_validate(
        {
            "sizes": {
                size: {"data_ratio": share, "hole_ratio": hole_ratio, "wait_ratio": 0.25}
                for size, share in shares.items()
            }
        }
    )


EVEN = env_config({"3": 0.5, "4": 0.25, "5": 0.25})
MOVED = env_config({"4": 0.4, "5": 0.35, "6": 0.25}, hole_ratio=0.3)


def broken(instance: Instance, kind: int) -> str:
    """An answer that is wrong in one of five ways; not every way is possible on every board."""
    first, second = instance.solution.plan
    size = instance.problem.size
    return [
        f"I cannot. {HOSTILE}",
        answer(((*first, (size, 0)), second)),
        answer((first[:1], second)),
        answer((first, first)),
        answer(((*first[:-1], *instance.problem.holes[:1]), second)),
    ][kind]


def rollouts_of(instances: list[Instance], correct: int) -> list[Rollout]:
    """The first `correct` of every ten answers are optimal, the others wrong in turn."""
    texts = [
        answer(i.solution.plan) if n % 10 < correct else f"{HOSTILE}\n{broken(i, n % 5)}"
        for n, i in enumerate(instances)
    ]
    return [
        Rollout(
            instance=i,
            completion=text,
            completion_tokens=len(text) // 4,
            truncated=n % 10 == 9,
            verdict=verify(i, text),
        )
        for n, (i, text) in enumerate(zip(instances, texts, strict=True))
    ]


def gain(before: list[Rollout], after: list[Rollout]) -> Difference:
    return paired_difference(*(np.array([r.verdict.valid for r in rollouts]) for rollouts in (before, after)))


def proposal(stage: int, config: EnvConfig, **changes: object) -> Proposal:
    return Proposal(stage=stage, engineer="checkpoint", variant="V6", config=config, **changes)


def stage_result(
    stage: int,
    config: EnvConfig,
    start: list[Rollout],
    after: list[Rollout],
    proposed: Proposal,
    preset: Preset = TINY,
) -> StageResult:
    change = gain(start, after)
    found = breakdown_of(preset.task, after)
    return StageResult(
        stage=stage,
        config=config,
        training=TrainingSummary(
            steps=20, seconds=61.0, completion_tokens=12_345, mean_reward=0.5, zero_variance_share=0.25
        ),
        breakdown=found,
        valid_gain=change,
        optimal_gain=change,
        gate=decide("off", stage, BASE_POLICY, change, 1.0, change if preset.space.best else None),
        proposal=proposed,
        behaviour=proposal_behaviour(preset.space, config, proposed.config, found),
        seconds={"train": 61.0, "evaluate": 20.0},
        tokens={"training": 12_345, "evaluation": 655},
        finished="2026-01-02T03:04:05+00:00",
        code="0.1.0+abc",
        machine="Linux x86_64, 2 cores",
    )


def write_log(path: Path, steps: int = 20) -> None:
    columns = {name: np.linspace(0, 1, steps) for name in TRAIN_LOG_SCHEMA.names} | {
        name: np.arange(1, steps + 1) for name in ("step", "completion_tokens")
    }
    strata = pa.array([[]] * steps, TRAIN_LOG_SCHEMA.field("strata").type)
    write_table(path, pa.table({**columns, "strata": strata}).cast(TRAIN_LOG_SCHEMA))


def write_run(
    run: Path,
    instances: list[Instance],
    corrects: tuple[int, ...],
    proposals: tuple[Proposal, ...] | None = None,
) -> Path:
    """A run directory with one stage per entry of `corrects`."""
    proposals = proposals or tuple(
        proposal(stage, MOVED, rationale="more 4x4") for stage in range(len(corrects))
    )
    afters = [rollouts_of(instances, correct) for correct in corrects]
    return write_stages(run, TINY, rollouts_of(instances, 3), afters, proposals, EVEN)


def write_stages(
    run: Path,
    preset: Preset,
    start: list[Rollout],
    afters: list[list[Rollout]],
    proposals: tuple[Proposal, ...],
    config: EnvConfig,
) -> Path:
    stages = []
    for stage, (after, proposed) in enumerate(zip(afters, proposals, strict=True)):
        write_rollouts(
            stage_directory(run, stage) / "rollouts.parquet", after, preset.prompt_style, preset.family
        )
        write_log(stage_directory(run, stage) / "train_log.parquet")
        stages.append(stage_result(stage, config, start, after, proposed, preset))
        config = proposed.config
    engineer = preset.engineer.model_copy(update={"variant": "V6"})
    made_by = preset.model_copy(update={"seed": 7, "engineer": engineer})
    write_json(run / "curriculum.json", new_curriculum("first", made_by))
    write_json(run / "results.json", results_of(start, stages, preset))
    return run


def results_of(start: list[Rollout], stages: list[StageResult], preset: Preset = TINY) -> CurriculumResults:
    names = {
        "curriculum": "first",
        "preset": preset.name,
        "engineer": "checkpoint",
        "variant": "V6",
        "seed": 7,
    }
    return CurriculumResults(**names, start=breakdown_of(preset.task, start), stages=tuple(stages))
