"""The step that asks the engineer: the engineer's state in the stage directory, cut off and repeated."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from factories import finished_run

from engineer.context import DesignContext
from envgen.dataset import write_table
from envgen.errors import EngineerError
from envgen.files import file_digest, write_json
from infra.config.preset import load_preset
from infra.runs import files
from infra.runs.context import design_context, training_facts
from infra.runs.files import CONFIG, ENGINEER_STATE, PROPOSAL, TRAINING_LOG, File, file_state
from infra.runs.run import Run, default_name, open_run
from infra.runs.steps import RECORDS, StepRecord
from policy.grpo.train_log import TRAIN_LOG_SCHEMA
from tasks.design import FUNCTION, judge, propose

ADVANTAGES = ({"3": 0.2, "4": 0.4, "5": 0.8, "6": 0.6}, {"3": 0.0, "4": 0.2, "5": 0.4, "6": 0.8})
VALUES = ({"3": 0.1, "4": 0.2, "5": 0.4, "6": 0.3}, {"3": 0.05, "4": 0.2, "5": 0.4, "6": 0.55})


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run of two stages, with these advantages in their training logs, before the engineer is asked."""
    run = finished_run(tmp_path / "run", (5, 5, 5), load_preset("micro", {"engineer.name": "bandit"}))
    for stage, advantages in enumerate(ADVANTAGES):
        strata = [
            {"stratum": name, "answers": 8, "advantage": value, "valid": 0.5, "zero_variance": 0}
            for name, value in advantages.items()
        ]
        failed = [{"stratum": "3", "question": "?", "answer": f"of stage {stage}", "verdict": "no plan"}]
        row = dict.fromkeys(TRAIN_LOG_SCHEMA.names, 0) | {"strata": strata, "failed": failed}
        write_table(run.path(TRAINING_LOG, stage), pa.Table.from_pylist([row], schema=TRAIN_LOG_SCHEMA))
    run.write(CONFIG, run.preset.default_config, 0)
    return run


def ask(run: Run, stage: int) -> StepRecord:
    """The record of the step; `reused` if it was not made anew."""
    path = run.folder(stage) / RECORDS / "engineer.json"
    before = file_state(path)
    judged = judge.fn(run, stage, run.evaluation(run.best(stage - 1)), run.evaluation(stage))
    propose.fn(run, stage, design_context(run, stage, run.read(files.BREAKDOWN, stage)), judged)
    run.write(CONFIG, run.read(PROPOSAL, stage).config, stage + 1)
    record = StepRecord.model_validate_json(path.read_bytes())
    return record.model_copy(update={"reused": file_state(path) == before})


def values(run: Run, stage: int) -> dict[str, float]:
    return json.loads((run.path(ENGINEER_STATE, stage)).read_text())["values"]


def test_the_state_goes_from_stage_to_stage_through_the_stage_directory(run: Run):
    context = design_context(run, 0, run.read(files.BREAKDOWN, 0))
    assert context.training == training_facts(run.preset)
    assert DesignContext.model_validate_json(context.model_dump_json()) == context
    for stage in (0, 1):
        assert set(ask(run, stage).outputs) == {"proposal.json", "engineer_state.json"}
        assert values(run, stage) == pytest.approx(VALUES[stage])
    assert "state" not in json.loads((run.path(PROPOSAL, 1)).read_text())


def test_a_finished_step_is_not_applied_again_unless_its_state_is_lost_or_follows_another(run: Run):
    key = ask(run, 0) and ask(run, 1).key
    paths = [path for path in run.directory.glob("stage-*/*.json") if path.name != "config.json"]
    before = {path: path.stat().st_mtime_ns for path in paths}
    assert ask(run, 0).reused
    assert ask(run, 1).reused
    assert before == {path: path.stat().st_mtime_ns for path in before}
    run.path(ENGINEER_STATE, 1).unlink()
    assert not ask(run, 1).reused
    assert values(run, 1) == pytest.approx(VALUES[1])
    (run.folder(0) / RECORDS / "engineer.json").unlink()
    run.write(ENGINEER_STATE, {"values": {}}, 0)
    assert ask(run, 1).key != key


def test_a_run_whose_steps_are_split_up_after_memory_ran_out_finds_its_proposals(run: Run):
    def proposed(**options: object) -> int:
        """When the proposals were written that a run with these options of the trainer finds."""
        preset = run.preset.model_copy(update={"trl": run.preset.trl | options})
        ask(run.model_copy(update={"chosen": preset}), 0)
        return run.path(PROPOSAL, 0).stat().st_mtime_ns

    first = proposed()
    assert proposed(per_device_train_batch_size=16, gradient_accumulation_steps=2) == first
    assert proposed(learning_rate=0.5) > first


def test_a_function_that_raised_is_mended_and_its_run_goes_on(run: Run, tmp_path, caplog):
    file = tmp_path / "mine.py"

    def asked(body: str, stage: int) -> StepRecord:
        file.write_text(f"def propose(context):\n    {body}\n")
        preset = load_preset("micro", {"engineer.name": f"{file}:propose"})
        if not stage:
            run.write(files.CURRICULUM, files.Curriculum(name="run", preset=preset))
        return ask(open_run(run.directory, preset), stage)

    with pytest.raises(EngineerError, match=r"(?s)after stage 0:.*mine.py\", line 2, in propose"):
        asked("return context.valid_rates()['7']", 0)
    first = asked("return {}, 'as before', {'n': 1}", 0)
    assert asked("return {}, 'as before', {'n': 1}", 0).reused
    assert first.facts == {FUNCTION: file_digest(file)}
    assert (run.read(PROPOSAL, 0).engineer, run.read(PROPOSAL, 0).rationale) == ("mine", "as before")
    run.write(files.MANIFEST, first.facts, 0)
    assert asked("return {}, 'another'", 1).facts != first.facts
    assert f"{file}:propose changed after stage 0" in caplog.text
    stored = run.read(files.CURRICULUM).preset
    assert default_name(open_run(run.directory, stored).preset) == "micro-mine-V6-s0"


@pytest.mark.parametrize("last", ["proposal.json", "engineer_state.json"])
def test_a_step_that_was_cut_off_is_repeated_from_the_state_before(run: Run, monkeypatch, last: str):
    """Cut off right after a file was written, before the record of its step."""

    def write_and_die(run: Run, file: File, value: object, stage: int) -> None:
        write_json(run.path(file, stage), value)
        if file.name == last:
            raise KeyboardInterrupt

    ask(run, 0)
    with monkeypatch.context() as patch:
        patch.setattr(Run, "write", write_and_die)
        with pytest.raises(KeyboardInterrupt):
            ask(run, 1)
    assert (run.folder(1) / last).exists()
    assert not ask(run, 1).reused
    assert values(run, 1) == pytest.approx(VALUES[1])


def test_the_engineer_may_read_failed_answers_of_the_stage_that_was_trained(run: Run):
    [example] = design_context(run, 1, run.read(files.BREAKDOWN, 1)).examples
    assert (example.stratum, example.answer, example.verdict) == ("3", "of stage 1", "no plan")


def test_the_training_facts_of_a_preset_are_plain_values_without_paths_or_secrets():
    secret = {"trl.hub_model_id": "me/mine", "trl.run_name": "mine", "rewards.format": 0.25}
    facts = {"algorithm": "GRPO", "group_size": 4, "learning_rate": 1e-4, "answer_tokens": 24}
    reward = {"format": 0.25, "valid": 1.0, "optimal": 0.5}
    numbers, off = {"per_device_train_batch_size": 32, "beta": 0.0}, ("bf16", "gradient_checkpointing")
    options = numbers | dict.fromkeys((*off, "mask_truncated_completions"), False)
    told = training_facts(load_preset("micro", secret))
    assert told == {**facts, "reward": reward, "hyperparameters": options}
