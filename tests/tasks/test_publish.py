"""Results of a run directory that is made here, without training."""

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engineer.behaviour import proposal_behaviour
from engineer.proposal import Proposal
from envgen.config import EnvConfig, SizeConfig
from envgen.dataset import write_dataset, write_table
from envgen.files import write_json
from envgen.problem import Instance
from envgen.prompts import PromptStyle, answer
from envgen.sampler import sample
from envgen.verifier import verify
from infra.preset import load_preset
from infra.runs.run import new_curriculum, read_results
from infra.runs.steps import StepRecord
from policy.evaluation import gains, valid_gains
from policy.rollouts import Rollout, breakdown_of, write_rollouts
from policy.train_log import TRAIN_LOG_SCHEMA
from tasks.design import Candidate, Candidates, engineer, read_candidates
from tasks.gate import judge
from tasks.learn import Changes
from tasks.lineage import record_lineage, unrecorded
from tasks.pilot import Pilots
from tasks.publish import publish
from tasks.run import RunRef, parent_stage, read_gate


def shares(small: float) -> EnvConfig:
    return EnvConfig(sizes={s: SizeConfig(data_ratio=share, hole_ratio=0.2, wait_ratio=0.25) for s, share in ((3, small), (4, 1 - small))})


CONFIGS = (shares(0.5), shares(0.8), shares(0.6))
OPTIONS_CONFIGS = [
    EnvConfig(sizes={s: SizeConfig(data_ratio=share, hole_ratio=0.2, wait_ratio=0.25) for s, share in zip((3, 4, 5, 6), row, strict=True)})
    for row in ((0.25, 0.25, 0.25, 0.25), (0.25, 0.25, 0.5, 0))
]
RATIONALE = "More data for 3x3."
OPTIONS = {"configs": [config.model_dump() for config in OPTIONS_CONFIGS]}


def judge_again(run: RunRef) -> None:
    for stage in (0, 1):
        judge.fn(run, stage, StepRecord(step="evaluate", key="", outputs={"rollouts.parquet": ""}, seconds=0))


def rollouts(instances: list[Instance], correct: int) -> list[Rollout]:
    """The first `correct` of every ten answers are optimal, the others empty."""
    texts = [answer(instance.solution.plan) if n % 10 < correct else "" for n, instance in enumerate(instances)]
    return [Rollout(instance=i, completion=t, completion_tokens=3, truncated=False, verdict=verify(i, t)) for i, t in zip(instances, texts, strict=True)]


def evaluated(directory: Path, found: list[Rollout]) -> None:
    write_rollouts(directory / "rollouts.parquet", found, PromptStyle.BOARD)
    write_json(directory / "breakdown.json", breakdown_of(found))


@pytest.fixture
def run(tmp_path: Path) -> tuple[RunRef, list[list[Rollout]]]:
    """Two stages: the valid rate rises from 30 % to 90 %, then drops to 10 %."""
    run = RunRef(directory=tmp_path / "run", preset=load_preset("micro"))
    instances = sample(CONFIGS[0], 40, agents=2, seed=3, purpose="validation")[0]
    evaluations = [rollouts(instances, correct) for correct in (3, 9, 1)]
    evaluated(run.start, evaluations[0])
    log = {name: np.linspace(0, 1, 5) for name in TRAIN_LOG_SCHEMA.names} | {name: np.arange(1, 6) for name in ("step", "completion_tokens")}
    for stage in (0, 1):
        directory = run.stage(stage)
        evaluated(directory, evaluations[stage + 1])
        write_json(directory / "config.json", CONFIGS[stage])
        write_json(directory / "pilot.json", Pilots(pilots=()))
        write_json(directory / "changes.json", Changes(valid={}))
        chosen, other = (Proposal(stage=stage, designer="checkpoint", variant="V6", config=CONFIGS[n], rationale=RATIONALE) for n in (stage + 1, stage))
        write_json(directory / "candidates.json", Candidates(candidates=tuple(Candidate(proposal=p, state={}) for p in (other, chosen))))
        write_json(directory / "proposal.json", chosen)
        write_table(directory / "train_log.parquet", pa.table(log).cast(TRAIN_LOG_SCHEMA))
    write_dataset(run.validation, instances, PromptStyle.BOARD, {})
    judge_again(run)
    return run, evaluations


def test_each_stage_is_published_with_the_behaviour_of_its_proposal(run: tuple[RunRef, list[list[Rollout]]]):
    reference, (start, first, second) = run
    results = publish.fn(reference, 2, {0: [], 1: []})
    assert read_results(reference.directory) == results
    assert (reference.directory / "report.html").is_file()
    assert [stage.behaviour for stage in results.stages] == [
        proposal_behaviour(None, CONFIGS[0], CONFIGS[1], breakdown_of(first), gains(start, first)[0], valid_gains(start, first), RATIONALE),
        proposal_behaviour(CONFIGS[0], CONFIGS[1], CONFIGS[2], breakdown_of(second), gains(first, second)[0], valid_gains(first, second), RATIONALE),
    ]
    behaviours = [stage.behaviour for stage in results.stages if stage.behaviour]
    assert [b.valid_change.value for b in behaviours] == pytest.approx([0.6, -0.8])
    assert [stage.valid_gain.value for stage in results.stages] == pytest.approx([0.6, -0.2])
    assert [[proposal.config for proposal in stage.rejected] for stage in results.stages] == [[CONFIGS[0]], [CONFIGS[1]]]
    assert behaviours[0].undone is None
    assert [b.claims.false for b in behaviours if b.claims] == [(), ("'3x3 more data': 0.80 → 0.60",)]
    assert behaviours[1].undone == pytest.approx(2 / 3)  # of the 30 points that 3x3 gained it loses 20


def test_a_stage_that_is_rolled_back_does_not_end_the_run(tmp_path: Path, run: tuple[RunRef, list[list[Rollout]]]):
    reference, (start, first, _) = run
    judged = RunRef(directory=reference.directory, preset=load_preset("micro", {"design.gate": "rollback"}))
    judge_again(judged)
    assert [(gate.action, gate.against, gate.in_force, gate.best) for gate in map(partial(read_gate, judged), (0, 1))] == [
        ("go-on", -1, 0, 0),
        ("rollback", 0, 0, 0),
    ]
    results = publish.fn(judged, 2, {0: [], 1: []})
    assert results.final.stage == 0
    assert results.final.breakdown == breakdown_of(first)
    assert results.final.valid_gain == gains(start, first)[0]
    page = (reference.directory / "report.html").read_text()
    assert "The gate rolled back: the run ends with stage 0." in page
    assert "<strong>rolled back</strong> to stage 0" in page


def test_a_stage_without_its_record_is_marked_until_it_is_recorded(run: tuple[RunRef, list[list[Rollout]]], monkeypatch: pytest.MonkeyPatch):
    reference, _ = run
    curriculum = new_curriculum("run", reference.preset)

    def refuse(*_: object) -> None:
        raise ConnectionError("no server")

    assert not unrecorded(reference.directory)
    with monkeypatch.context() as patch:
        patch.setattr("tasks.lineage.Recorder", refuse)
        record_lineage.fn(reference, curriculum, 0)
    assert unrecorded(reference.directory)
    monkeypatch.setattr("tasks.lineage.Recorder", lambda *_: None)
    monkeypatch.setattr("tasks.lineage._record", lambda *_: None)
    record_lineage.fn(reference, curriculum, 1)
    assert unrecorded(reference.directory), "stage 0 still is not recorded"
    record_lineage.fn(reference, curriculum, 0)
    assert not unrecorded(reference.directory)


@pytest.mark.parametrize(("gate", "parent", "config"), [("off", 1, OPTIONS_CONFIGS[1]), ("keep-config", 1, CONFIGS[0]), ("rollback", 0, CONFIGS[0])])
def test_the_next_stage_starts_where_the_gate_says(run: tuple[RunRef, list[list[Rollout]]], gate: str, parent: int, config: EnvConfig):
    """The run of the fixture: stage 1 does harm. After it the gate decides on policy and config, or lets the designer go on."""
    judged = RunRef(directory=run[0].directory, preset=load_preset("micro", {"design.gate": gate, "design.designer": "replay", "design.options": OPTIONS}))
    judge_again(judged)
    for number in (0, 1):
        write_json(judged.stage(number) / "designer_state.json", {"seen": number})
    summary = StepRecord(step="summarize", key="", outputs={}, seconds=0)
    engineer.fn(judged, 1, summary, summary)
    [candidate] = read_candidates(judged, 1).candidates
    assert parent_stage(judged, 2) == parent
    assert candidate.proposal.config == config
    if gate != "off":
        assert candidate.proposal.fallback is not None
        assert candidate.proposal.fallback.startswith("by the gate: valid rate")
        assert candidate.state == {"seen": 0}, "what the designer remembers stays"
