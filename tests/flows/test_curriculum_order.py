"""The order of a curriculum: what each stage starts from, and when the run ends. The stages here train nothing, and no server runs."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import flows.curriculum
from engineer.gate import START, decide
from engineer.proposal import Proposal
from envgen.breakdown import Difference
from envgen.config import EnvConfig, SizeConfig
from envgen.files import file_digest, write_json
from infra.decision import Decision, Verdict, now, store_decision
from infra.preset import load_preset
from infra.run_directory import Curriculum
from infra.steps import StepRecord
from tasks.run import Parent, RunRef, read_gate

RISE, DROP = Difference(value=0.1, low=0.05, high=0.15), Difference(value=-0.2, low=-0.3, high=-0.1)
DEFAULT = load_preset("micro").default_config


def proposed(stage: int) -> EnvConfig:
    return EnvConfig(sizes={3: SizeConfig(data_ratio=1, hole_ratio=0.2 + stage / 100, wait_ratio=0)})


class Turn(NamedTuple):
    """A stage that was begun: its config, the stage whose checkpoint it trains, and the digest of that."""

    number: int
    config: EnvConfig
    parent: int
    identity: str


class Played(NamedTuple):
    """What a run did: its stages, and over how many of them it was published last."""

    turns: list[Turn]
    published: int


def record(step: str, **outputs: str) -> StepRecord:
    return StepRecord(step=step, key=f"key of {step}", outputs=outputs, seconds=0)


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Played]:
    """Run the curriculum in `run`; the stages in `drops` make the policy worse, the others better."""

    def run(*drops: int, **settings: object) -> Played:
        turns: list[Turn] = []

        def stage(run: RunRef, opened: Curriculum, number: int, config: EnvConfig, _: StepRecord, parent: Parent, earlier: dict, *names: str):
            turns.append(Turn(number, config, parent.stage, parent.identity))
            write_json(run.stage(number) / "config.json", config)
            write_json(run.stage(number) / "proposal.json", Proposal(stage=number, designer="fixed", variant="V6", config=proposed(number)))
            against = read_gate(run, number - 1).best if number else START
            dropped = number in drops
            gate = decide(run.preset.design.gate, number, against, DROP if dropped else RISE, 0.001)
            write_json(run.stage(number) / "gate.json", gate)
            return [record("generate"), record("train", checkpoint=f"weights {number}")], len(earlier) + 1

        def nothing(*_: object) -> None:
            """Stands for what warms a process up."""

        stand_ins: dict[str, Callable] = dict.fromkeys(("warm_engine", "warm_trainer"), nothing)
        stand_ins |= {"make_validation": lambda run: record("validation"), "evaluate_start": lambda run, validation: record("start")}
        stand_ins |= {"stage": stage, "publish": lambda run, stages, steps: stages}
        for name, stand_in in stand_ins.items():
            monkeypatch.setattr(flows.curriculum, name, stand_in)
        preset = load_preset("micro", {key.replace("__", "."): value for key, value in settings.items()})
        return Played(turns, flows.curriculum.run_curriculum(preset, tmp_path / "run"))  # type: ignore[arg-type]

    return run


def answer(directory: Path, verdict: Verdict) -> None:
    """Decide on what stage 0 proposed."""
    config = DEFAULT if verdict == "reject" else proposed(0)
    digest = file_digest(directory / "stage-00" / "proposal.json")
    store_decision(directory, Decision(stage=0, decision=verdict, config=config, via="shell", proposal=digest, decided_at=now()))


FIRST, SECOND = Turn(0, DEFAULT, START, "key of start"), Turn(1, proposed(0), 0, "weights 0")


def test_every_stage_trains_the_policy_before_it_on_the_config_proposed_there(play):
    assert play(stages=3) == Played([FIRST, SECOND, Turn(2, proposed(1), 1, "weights 1")], 3)


def test_after_a_drop_the_stage_before_it_is_trained_again(play):
    back_to_first = [FIRST, SECOND, Turn(2, proposed(1), 0, "weights 0"), Turn(3, proposed(2), 2, "weights 2")]
    assert play(1, stages=4, design__gate="rollback").turns == back_to_first


def test_two_drops_lead_back_to_the_start_policy(play):
    turns = play(0, 1, stages=3, design__gate="rollback").turns
    assert [(turn.parent, turn.identity) for turn in turns] == [(START, "key of start")] * 3


def test_a_run_waits_for_a_decision_and_goes_on_with_it(play, tmp_path: Path):
    assert play(approval="required") == Played([FIRST], 1)
    assert play(approval="required") == Played([FIRST], 1), "still nobody has decided"
    answer(tmp_path / "run", "approve")
    assert play(approval="required") == Played([FIRST, SECOND], 2)


def test_a_rejected_proposal_leaves_the_config_that_was_there(play, tmp_path: Path):
    play(approval="required")
    answer(tmp_path / "run", "reject")
    assert play(approval="required").turns == [FIRST, Turn(1, DEFAULT, 0, "weights 0")]


def test_a_stopped_run_ends_with_the_stage_that_it_has_also_when_it_is_called_again(play, tmp_path: Path):
    play(approval="required")
    answer(tmp_path / "run", "stop")
    assert play(approval="required") == Played([FIRST], 1)
    assert play(approval="required", stages=3) == Played([FIRST], 1)


def test_a_run_that_is_given_more_stages_goes_on_with_the_proposal_of_its_last_one(play):
    assert play(stages=1) == Played([FIRST], 1)
    assert play(stages=2) == Played([FIRST, SECOND], 2)
