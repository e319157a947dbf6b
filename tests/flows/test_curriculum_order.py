"""The order of a curriculum whose stages train nothing: what each starts from, and when the run ends."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
from support.boards import boards_config

import flows.curriculum
from engineer.contract import Proposal
from engineer.gate import BASE_POLICY, decide
from envgen.config import EnvConfig
from envgen.errors import ModelError
from envgen.estimates import Difference
from envgen.files import file_digest, write_json
from infra.config.preset import Preset, load_preset
from infra.results import Decision, Verdict
from infra.runs.files import CONFIG, GATE, MANIFEST, PROPOSAL
from infra.runs.next_config import store_decision
from infra.runs.run import Run
from infra.runs.steps import RECORDS, StepRecord
from policy.grpo.train_spec import CHECKPOINT

RISE, DROP = (Difference(value=value, low=value - 0.1, high=value + 0.05, p=0.001) for value in (0.15, -0.2))
DEFAULT = load_preset("micro").default_config


def proposed(stage: int) -> EnvConfig:
    return boards_config({3: (1, 0.2 + stage / 100, 0)})


class Turn(NamedTuple):
    """A stage that was begun, and the stage whose checkpoint it trains."""

    number: int
    config: EnvConfig
    parent: int


class Played(NamedTuple):
    """What a run did: its stages, and over how many of them it was published last."""

    turns: list[Turn]
    published: int


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Played]:
    """Run the curriculum in `run`; the stages in `drops` make the policy worse, the others better."""

    def run(*drops: int, **settings: object) -> Played:
        turns: list[Turn] = []

        def stage(run: Run, number: int, config: EnvConfig, _: None, parent: int, *names: str) -> tuple:
            turns.append(Turn(number, config, parent))
            run.write(CONFIG, config, number)
            proposal = Proposal(stage=number, engineer="fixed", context="V6", config=proposed(number))
            run.write(PROPOSAL, proposal, number)
            against = run.read(GATE, number - 1).best if number else BASE_POLICY
            change = DROP if number in drops else RISE
            run.write(GATE, decide(run.preset.engineer.gate, number, against, change), number)
            run.write(MANIFEST, {"stage": number}, number)
            return number + 1, {}

        monkeypatch.setattr(Preset, "plan", lambda *_: None)
        names = ("record_start", "make_validation", "evaluate_start", "require_solved", "show_result")
        for name in (*names, "record_stages"):
            monkeypatch.setattr(flows.curriculum, name, lambda *_: None)
        monkeypatch.setattr(flows.curriculum, "stage", stage)
        monkeypatch.setattr(flows.curriculum, "publish", lambda run, stage: stage + 1)
        preset = load_preset("micro", {key.replace("__", "."): value for key, value in settings.items()})
        return Played(turns, flows.curriculum.run_curriculum(preset, tmp_path / "run"))  # type: ignore[arg-type]

    return run


def answer(directory: Path, verdict: Verdict) -> None:
    """Decide on what stage 0 proposed."""
    run = Run(directory=directory)
    config = DEFAULT if verdict == "reject" else proposed(0)
    how = {"via": "shell", "proposal": run.digest(PROPOSAL, 0), "decided_at": datetime.now(UTC)}
    store_decision(run, Decision(stage=0, decision=verdict, config=config, **how))


FIRST, SECOND = Turn(0, DEFAULT, BASE_POLICY), Turn(1, proposed(0), 0)


def test_an_endpoint_that_does_not_answer_ends_a_run_before_anything_is_trained(play, tmp_path: Path):
    options = {"model": "m", "base_url": "http://127.0.0.1:9/v1", "retries": 0}
    with pytest.raises(ModelError, match="check base_url and whether the server runs"):
        play(engineer__name="openai", engineer__options=options)
    assert not (tmp_path / "run").exists(), "with another address it is a new run"


@pytest.mark.parametrize(
    ("drops", "gate", "turns"),
    [
        ((), "off", [FIRST, SECOND, Turn(2, proposed(1), 1)]),
        ((1,), "rollback", [FIRST, SECOND, Turn(2, proposed(1), 0), Turn(3, proposed(2), 2)]),
        ((0, 1), "rollback", [FIRST, Turn(1, proposed(0), BASE_POLICY), Turn(2, proposed(1), BASE_POLICY)]),
    ],
    ids=["the policy before it", "after a drop the one before that", "after two the base policy"],
)
def test_every_stage_trains_on_the_config_proposed_before_it(play, drops, gate, turns: list[Turn]):
    assert play(*drops, stages=len(turns), engineer__gate=gate) == Played(turns, len(turns))


@pytest.mark.parametrize(
    ("verdict", "turns"), [("approve", [SECOND]), ("reject", [Turn(1, DEFAULT, 0)]), ("stop", [])]
)
def test_a_run_waits_for_a_decision_and_follows_it(play, tmp_path, caplog, verdict, turns):
    caplog.set_level(logging.INFO, "envwright")
    assert play(approval="required") == Played([FIRST], 1)
    assert play(approval="required") == Played([], 1), "still nobody has decided"
    answer(tmp_path / "run", verdict)
    caplog.clear()
    assert play(approval="required") == Played(turns, 1 + len(turns))
    assert "1 of 2 stages are complete" in caplog.text
    assert ("stage 1 (2 of 2)" in caplog.text) is bool(turns)
    assert "stage 0 (1 of 2)" not in caplog.text, "it would read like a new run"
    if not turns:
        assert play(approval="required", stages=3) == Played([], 1)


def test_a_stage_whose_files_or_manifest_changed_is_entered_again_and_those_after_it(play, tmp_path: Path):
    play(stages=3)
    run = Run(directory=tmp_path / "run")
    for manifest in ('{"stage": 1', '{"stage": 1, "files": {"config.json": "of an earlier one"}}'):
        run.path(MANIFEST, 1).write_text(manifest)
        assert [turn.number for turn in play(stages=3).turns] == [1, 2]
    for number in (0, 1):
        written = {CONFIG.name: run.digest(CONFIG, number)}
        record = StepRecord(step="generate", key="", outputs=written, seconds=0)
        write_json(run.folder(number) / RECORDS / "generate.json", record)
        run.write(MANIFEST, {"files": written}, number)
    assert play(stages=4).turns == [Turn(3, proposed(2), 2)]
    run.path(CONFIG, 1).write_text("{}")
    assert [turn.number for turn in play(stages=4).turns] == [1, 2, 3]


def test_of_the_checkpoints_only_the_one_that_is_trained_next_has_to_be_whole(play, tmp_path: Path):
    run = Run(directory=tmp_path / "run")

    def record_weights(number: int) -> Path:
        weights = run.checkpoint(number) / "weights.json"
        write_json(weights, [number])
        digests = {CHECKPOINT: file_digest(run.checkpoint(number))}
        record = StepRecord(step="train", key="", outputs=digests, seconds=0)
        write_json(run.folder(number) / RECORDS / "train.json", record)
        run.write(MANIFEST, {"files": digests}, number)
        return weights

    play(stages=2)
    first, _ = record_weights(0), record_weights(1)
    first.unlink()
    assert play(stages=2).turns == []
    assert [turn.number for turn in play(stages=3).turns] == [2]
    record_weights(2).unlink()
    assert play(stages=3).turns == []
    assert [turn.number for turn in play(stages=4).turns] == [2, 3]
