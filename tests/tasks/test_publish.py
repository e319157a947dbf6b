"""Results of a run directory that is made here, without training."""

from pathlib import Path

import pytest
from factories import finished_run, rollouts, shares
from support.boards import boards_config, sample_boards

from envgen.files import write_json
from infra.config.preset import load_preset
from infra.runs.context import design_context
from infra.runs.files import BREAKDOWN, ENGINEER_STATE, GATE, MANIFEST, PROPOSAL, REPORT, RESULTS
from infra.runs.run import Run
from infra.runs.steps import RECORDS
from policy.evaluation import gains
from policy.rollouts import Rollout, breakdown_of
from tasks.design import judge, propose
from tasks.publish import publish, write_manifest

CONFIGS = (shares(0.5), shares(0.8), shares(0.6))
OPTIONS_CONFIGS = [
    boards_config({size: (share, 0.2, 0.25) for size, share in zip((3, 4, 5, 6), row, strict=True)})
    for row in ((0.25, 0.25, 0.25, 0.25), (0.25, 0.25, 0.5, 0))
]
OPTIONS = {"configs": [config.model_dump() for config in OPTIONS_CONFIGS]}


def judge_again(run: Run) -> None:
    for stage in (0, 1):
        judge.fn(run, stage, run.evaluation(run.best(stage - 1)), run.evaluation(stage))


def record_training(run: Run, **fields: object) -> None:
    record = {"step": "train", "key": "of training", "outputs": {}, "seconds": 2.0, **fields}
    write_json(run.folder(0) / RECORDS / "train.json", record)


@pytest.fixture
def run(tmp_path: Path) -> tuple[Run, list[list[Rollout]]]:
    """Two stages: the valid rate rises from 30 % to 90 %, then drops to 10 %."""
    boards = sample_boards(CONFIGS[0], 40, seed=3, purpose="validation")
    correct = (3, 9, 1)
    found = finished_run(tmp_path / "run", correct, validation=boards, configs=CONFIGS)
    return found, [rollouts(boards, count) for count in correct]


def test_each_stage_is_published_with_its_breakdown_its_proposal_and_where_it_was_resumed(run):
    reference, (_, first, second) = run
    task = reference.preset.task
    record_training(reference, facts={"resumed": [2, 3]})
    write_manifest.fn(reference, 0)
    results = publish.fn(reference, 1)
    assert Run(directory=reference.directory).read(RESULTS) == results
    assert [stage.training.resumed for stage in results.stages] == [(2, 3), ()]
    assert "resumed from step 2" in reference.read(REPORT)
    assert [stage.proposal.config for stage in results.stages] == list(CONFIGS[1:3])
    assert [stage.breakdown for stage in results.stages] == [
        breakdown_of(task, answers) for answers in (first, second)
    ]
    assert [stage.valid_gain.value for stage in results.stages] == pytest.approx([0.6, -0.2])


def test_a_page_that_cannot_be_drawn_costs_the_page_and_not_the_run(run, monkeypatch, caplog):
    def broken(directory: Path) -> None:
        raise KeyError("a column")

    monkeypatch.setattr("infra.report.page.write_report", broken)
    results = publish.fn(run[0], 0)
    assert run[0].read(RESULTS) == results
    assert "`envwright report " in caplog.text
    assert "Traceback" in caplog.text, "wrong code is not hidden"


def test_a_stage_that_is_rolled_back_does_not_end_the_run(run: tuple[Run, list[list[Rollout]]]):
    reference, (start, first, second) = run
    judged = Run(directory=reference.directory, chosen=load_preset("micro", {"engineer.gate": "rollback"}))
    judge_again(judged)
    gates = [judged.read(GATE, stage) for stage in (0, 1)]
    decided = [(gate.action, gate.against, gate.in_force, gate.best) for gate in gates]
    assert decided == [("go-on", -1, 0, 0), ("rollback", 0, 0, 0)]
    assert judged.read(GATE, 1).valid == gains(first, second, 1)[0]
    results = publish.fn(judged, 1)
    assert results.final_stage == 0
    assert results.stages[0].breakdown == breakdown_of(reference.preset.task, first)
    assert results.stages[0].valid_gain == gains(start, first, 1)[0]
    [part] = results.parts
    assert part.after == results.stages[0].breakdown, "what was thrown away is in no part"
    assert "a drop; the next stage starts from stage 0 with the config of stage 0" in judged.read(REPORT)


@pytest.mark.parametrize(
    ("gate", "parent", "config"), [("off", 1, OPTIONS_CONFIGS[1]), ("rollback", 0, CONFIGS[0])]
)
def test_the_next_stage_starts_where_the_gate_says(run, gate, parent, config):
    """The run of the fixture: stage 1 does harm. After it the gate decides on policy and config, or lets the
    engineer go on."""
    settings = {"engineer.gate": gate, "engineer.name": "replay", "engineer.options": OPTIONS}
    judged = Run(directory=run[0].directory, chosen=load_preset("micro", settings))
    judge_again(judged)
    for number in (0, 1):
        judged.write(ENGINEER_STATE, {"seen": number}, number)
    context = design_context(judged, 1, judged.read(BREAKDOWN, 1))
    propose.fn(judged, 1, context, judged.read(GATE, 1))
    proposal = judged.read(PROPOSAL, 1)
    assert judged.parent(2) == parent
    assert proposal.config == config
    if gate != "off":
        assert proposal.fallback.startswith("by the gate: valid rate")
        assert judged.read(ENGINEER_STATE, 1) == {"seen": 0}, "what the engineer remembers stays"


def test_a_manifest_is_repaired_after_a_cut_between_a_step_done_again_and_it(tmp_path: Path):
    run = finished_run(tmp_path / "run", (3, 4, 5), configs=CONFIGS)

    def write(sha: str) -> None:
        record_training(run, outputs={"checkpoint": sha})
        write_manifest.fn(run, 0)

    write("first")
    state = run.path(MANIFEST, 0).stat().st_mtime_ns
    write("first")
    assert run.path(MANIFEST, 0).stat().st_mtime_ns == state, "of the same steps it is not written again"
    write("second")
    assert run.read(MANIFEST, 0)["files"]["checkpoint"] == "second"
    run.path(MANIFEST, 0).write_text('{"stage": 0')
    write("second")
    assert run.read(MANIFEST, 0)["files"]["checkpoint"] == "second"
