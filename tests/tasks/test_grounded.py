"""The grounded pilot on a real policy: a few optimizer steps on each candidate, then the validation set."""

from pathlib import Path

import pytest

from engineer.gate import BASE_POLICY, GateDecision
from engineer.proposal import Candidate, Candidates, Proposal
from engineer.spec import EngineerSpec
from envgen.breakdown import Difference, wilson
from envgen.config import EnvConfig
from infra.config.preset import load_preset
from infra.runs.run import RunRef
from infra.runs.stage import Stage
from infra.runs.steps import StepRecord
from policy.grpo.pilot import Grounded, Mean, Piloted, Pilots, PilotScore
from tasks import grounded
from tasks.data import make_validation
from tasks.learn import evaluate_start
from tasks.pilot import choose, score_candidates
from tasks.run import close_engine

SETTINGS = {"engineer.pilot_score": "grounded", "engineer.pilot_steps": 2, "engineer.pilot_validation": 6}


@pytest.fixture
def run(tmp_path: Path) -> RunRef:
    """A run of `micro-sums` after a stage 0 that the gate rolled back, with proposals of two and three
    digits."""
    run = RunRef(directory=tmp_path, preset=load_preset("micro-sums", SETTINGS))
    key = run.preset.space.key
    configs = [
        EnvConfig.model_validate(
            {key: {name: {"data_ratio": 0.5, "digits": digits, "carry_ratio": 0.5} for name in "23"}}
        )
        for digits in (2, 3)
    ]
    drawn = [Proposal(stage=0, engineer="random", variant="V6", config=config) for config in configs]
    found = Candidates(candidates=tuple(Candidate(proposal=one, state={}) for one in drawn))
    gate = GateDecision(
        stage=0,
        gate="rollback",
        against=BASE_POLICY,
        valid=Difference(value=-0.5, low=-0.6, high=-0.4),
        p_value=0.001,
        action="rollback",
        reason="a drop",
        best=BASE_POLICY,
        in_force=BASE_POLICY,
    )
    run.stage(0).write(Stage.candidates, found)
    run.stage(0).write(Stage.gate, gate)
    return run


def step(name: str, *outputs: str) -> StepRecord:
    return StepRecord(step=name, key=name, outputs=dict.fromkeys(outputs, "same"), seconds=0)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
def test_each_candidate_is_trained_on_a_copy_and_what_was_done_is_found(
    run: RunRef, monkeypatch: pytest.MonkeyPatch
):
    class Killed(BaseException):
        pass

    def kill(*args: object) -> None:
        raise Killed

    files, candidates = run.stage(0), step("engineer", "candidates.json")
    evaluate_start.fn(run, make_validation.fn(run))
    policy, trained = run.identity(BASE_POLICY), []
    once = grounded.run_child
    monkeypatch.setattr(
        grounded, "run_child", lambda *args, **options: (trained.append(args[1]), once(*args, **options))
    )
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Stage, "write", kill)
            with pytest.raises(Killed):
                score_candidates.fn(run, 0, candidates, step("gate"))
        assert len(trained) == 2
        pilots = score_candidates.fn(run, 0, candidates, step("gate"))
    finally:
        close_engine()
    assert len(trained) == 2, "what was trained before the cut is found"
    assert [spec.parent for spec in trained] == [run.policy(BASE_POLICY)] * 2
    assert run.identity(BASE_POLICY) == policy
    assert not (files.directory / grounded.FOLDER).exists()
    for one in files.pilots.pilots:
        assert one.error is None
        assert one.score
        assert one.score.grounded
        assert (one.score.grounded.steps, one.score.grounded.instances) == (2, 6)
        assert one.score.completion_tokens > one.score.grounded.completion_tokens > 0
        assert set(one.score.scores) == {"advantage", "mixed", "learnability", "grounded"}
    choose.fn(run, 0, candidates, pilots)
    best = max(files.pilots.pilots, key=lambda one: one.value("grounded"))
    assert files.proposal.config == best.config


def test_the_score_that_the_preset_names_chooses(run: RunRef):
    files = run.stage(0)
    change = Difference(value=0.1, low=0, high=0.2)
    mean = Mean(value=0.2, low=0.1, high=0.3)
    low = PilotScore(
        groups=2,
        group_size=4,
        mixed=wilson(1, 2),
        advantage=mean,
        valid=mean,
        prompt_tokens=1,
        completion_tokens=1,
        grounded=Grounded(steps=2, instances=6, valid=change, completion_tokens=1),
    )
    known = Grounded(
        steps=2, instances=6, valid=change.model_copy(update={"value": 0.3}), completion_tokens=1
    )
    high = low.model_copy(update={"advantage": mean.model_copy(update={"value": 0.1}), "grounded": known})
    first, second = files.candidates.configs
    files.write(
        Stage.pilots,
        Pilots(pilots=(Piloted(config=first, score=low), Piloted(config=second, score=high))),
    )
    for score, chosen in (("grounded", second), ("advantage", first)):
        spec = run.preset.engineer.model_copy(update={"pilot_score": score})
        named = run.model_copy(update={"preset": run.preset.model_copy(update={"engineer": spec})})
        choose.fn(named, 0, step("engineer", "candidates.json"), step("pilot", "pilot.json"))
        assert files.proposal.config == chosen


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"pilot_steps": 2}, "set pilot"),
        ({"pilot": 2, "pilot_score": "grounded"}, "set pilot_steps"),
    ],
)
def test_a_grounded_score_without_its_amounts_is_refused(fields: dict, said: str):
    with pytest.raises(ValueError, match=said):
        EngineerSpec(**fields)
