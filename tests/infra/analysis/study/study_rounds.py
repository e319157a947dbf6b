"""Rounds of a study made without training: what each policy answers is known."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np

from engineer.behaviour import proposal_behaviour
from engineer.gate import BASE_POLICY, decide
from engineer.proposal import Attempt, Proposal
from envgen.breakdown import Breakdown, Difference, Judged, count_verdicts, paired_difference, wilson
from envgen.config import EnvConfig
from envgen.dataset import write_dataset
from envgen.mapf.config import BoardsConfig
from envgen.mapf.problem import Instance
from envgen.mapf.prompts import PromptStyle, answer
from envgen.mapf.sampler import sample
from envgen.mapf.space import Options, space_of
from envgen.mapf.verifier import verify
from infra.analysis.spec import SHARED, Stage0, shared_policy
from infra.analysis.study.records import Answers, SetName, StoredRound, StoredRun, write_round
from infra.analysis.study.spec import ArmGroup, Round, StudySpec
from infra.runs.results import CurriculumResults, StageResult, TrainingSummary
from policy.grpo.pilot import Mean, Piloted, PilotScore

ASKED = {
    "started": datetime(2026, 1, 2, tzinfo=UTC),
    "seconds": 1.5,
    "prompt_tokens": 15,
    "completion_tokens": 6,
}
"""When a model was asked, and what the answer took."""
SPACE = space_of(Options(map_sizes=(3, 4)))
ARMS = ("fixed", "random", "checkpoint-V6")
PILOTED = {"engineer.candidates": 4, "engineer.pilot": 32}
SUITE = {
    "boards": {3: (4,), 2: (7,)},
    "wait_ratios": (0.5,),
    "hole_ratios": (0.2,),
    "instances": 10,
    "seed": 5,
    "answer_tokens": 64,
}
SPEC = StudySpec(
    name="small",
    preset="micro",
    test=SUITE,
    rounds=(
        Round(
            number=1,
            seeds=(0, 1, 2),
            groups=(ArmGroup(engineers=("fixed", "random", "checkpoint:V6")),),
            primary="checkpoint-V6",
        ),
        Round(
            number=2,
            seeds=(3, 4),
            stage_0="per-seed",
            groups=(
                ArmGroup(engineers=("fixed", "random", "checkpoint:V6")),
                ArmGroup(name="pilot", engineers=("random",), settings=PILOTED),
            ),
            primary="random+pilot",
        ),
    ),
)
Right = Callable[[str, int, SetName], int]
"""(policy, stage, set) -> how many of every ten answers are right."""
STAGES = 2


def rising(policy: str, stage: int, name: SetName) -> int:
    """A tenth more a stage from 2 of 10; after stage 1 the checkpoint is one better than random, fixed as
    good as random; seed 3 has a better stage 0."""
    better = policy.startswith("checkpoint") + (policy == "random-s1")
    return 2 + (stage + 1) + (better if stage == 1 else 0) + 2 * (policy == "shared-s3")


@cache
def small_sets() -> dict[SetName, list[Instance]]:
    """The sets of `SPEC`, drawn once for all tests."""
    return instances(SPEC)


def instances(spec: StudySpec) -> dict[SetName, list[Instance]]:
    return {
        "test": spec.suite.draw(),
        "validation": sample(BoardsConfig.of(config(0.5, 0.25)), 20, agents=2, seed=3, purpose="validation")[
            0
        ],
    }


def config(small: float, waits: float) -> EnvConfig:
    parts = {
        size: {"data_ratio": share, "hole_ratio": 0.2, "wait_ratio": waits}
        for size, share in (("3", small), ("4", 1 - small))
    }
    return EnvConfig.model_validate({"sizes": parts})


def write(
    data: Path,
    spec: StudySpec,
    number: int,
    right: Right = rising,
    sets: dict[SetName, list[Instance]] | None = None,
) -> StoredRound:
    """The files of a round under `data`."""
    one, sets = spec.round(number), sets or instances(spec)
    for name, found in sets.items():
        write_dataset(data / f"{name}.parquet", found, PromptStyle.COMPACT, {})
    arms = tuple(spec.arms(one))
    runs = tuple(run(arm, seed, right, sets["validation"], one.stage_0) for seed in one.seeds for arm in arms)
    stored = StoredRound(
        study=spec.name,
        round=number,
        registered=spec.registered(one),
        code=("1.0",),
        arms=arms,
        seeds=one.seeds,
        stage_0=one.stage_0,
        runs=runs,
    )
    write_round(data / one.folder, stored, sets, _answers(stored, right, sets))
    return stored


def _answers(stored: StoredRound, right: Right, sets: dict[SetName, list[Instance]]) -> list[Answers]:
    shared = dict.fromkeys(
        (shared_policy(stage, stored.stage_0, seed), stage)
        for stage in (BASE_POLICY, 0)
        for seed in stored.seeds
    )
    own: list[tuple[str, int, SetName]] = [(policy, stage, name) for policy, stage in shared for name in sets]
    for one in stored.runs:
        for stage in range(1, STAGES):
            own.append((one.policy, stage, "validation"))
        own.append((one.policy, STAGES - 1, "test"))
    return [
        Answers(policy, stage, name, tuple(completions(sets[name], right(policy, stage, name))))
        for policy, stage, name in own
    ]


def completions(found: list[Instance], right: int) -> list[str]:
    """The first `right` of every ten answers are optimal, the others cannot be read."""
    return [
        answer(instance.solution.plan) if n % 10 < right else "no plan" for n, instance in enumerate(found)
    ]


def run(arm: str, seed: int, right: Right, validation: list[Instance], stage_0: Stage0 = "one") -> StoredRun:
    policy = f"{arm}-s{seed}"
    stages: list[StageResult] = []
    before = outcomes(validation, right(SHARED, BASE_POLICY, "validation"))
    start = breakdown(validation, right(SHARED, BASE_POLICY, "validation"))
    for stage in range(STAGES):
        count = right(policy if stage else shared_policy(0, stage_0, seed), stage, "validation")
        now = outcomes(validation, count)
        trained = stages[-1].proposal.config if stages else config(0.5, 0.25)
        proposed = config(0.5, 0.25) if arm == "fixed" else config(0.2 + 0.1 * ((seed + stage) % 5), 0.5)
        gain = paired_difference(before, now, resamples=99)
        stages.append(_stage(arm, stage, trained, proposed, breakdown(validation, count), gain, seed))
        before = now
    results = CurriculumResults(
        curriculum=policy,
        preset="micro",
        engineer=arm.split("-")[0],
        variant="V6",
        seed=seed,
        start=start,
        stages=tuple(stages),
    )
    return StoredRun(
        arm=arm,
        seed=seed,
        results=results,
        tokens={"training": 2_000, "evaluation": 300, "engineer": 10, "pilot": 40},
        seconds=1_800,
    )


def _stage(
    arm: str,
    stage: int,
    trained: EnvConfig,
    proposed: EnvConfig,
    found: Breakdown,
    gain: Difference,
    seed: int,
) -> StageResult:
    rationale = "The config is fixed." if arm == "fixed" else "More waits for 4x4."
    changes = ("shares were scaled",) if arm == "checkpoint-V6" else ()
    answers = (
        Attempt(text="{", finish_reason="length", error="no JSON", **ASKED),
        Attempt(text="{}", finish_reason="stop", **ASKED),
    )
    bad = answers if arm == "checkpoint-V6" else ()
    proposal = Proposal(
        stage=stage,
        engineer=arm.split("-")[0],
        variant="V6",
        config=proposed,
        changes=changes,
        attempts=bad,
        rationale=rationale,
        fallback="kept" if stage and bad else None,
    )
    level = Mean(value=0.3 + seed / 10 + 0.01 * arm.startswith("checkpoint"), low=0.2, high=0.9)
    score = PilotScore(
        groups=4,
        group_size=2,
        mixed=wilson(1 + seed % 3, 4),
        advantage=level,
        valid=level,
        prompt_tokens=1,
        completion_tokens=1,
    )
    return StageResult(
        stage=stage,
        parent=stage - 1,
        config=trained,
        training=TrainingSummary(
            steps=4, seconds=1, completion_tokens=9, mean_reward=0.5, zero_variance_share=0.5
        ),
        breakdown=found,
        valid_gain=gain,
        optimal_gain=gain,
        gate=decide("off", stage, BASE_POLICY, gain, 1.0),
        pilots=(Piloted(config=proposed, score=score),),
        proposal=proposal,
        behaviour=proposal_behaviour(SPACE, None, trained, proposed, found, gain, {}, proposal.rationale),
        seconds={"train": 60.0},
        finished=f"2026-01-0{stage + 1}T03:04:05+00:00",
        machine="Linux, 2 cores",
    )


def outcomes(found: list[Instance], right: int) -> np.ndarray:
    return np.array([n % 10 < right for n in range(len(found))])


def breakdown(found: list[Instance], right: int) -> Breakdown:
    texts = completions(found, right)
    judged = (
        Judged(instance.stratum, verify(instance, text), instance.labels)
        for instance, text in zip(found, texts, strict=True)
    )
    return count_verdicts(SPACE, judged)
