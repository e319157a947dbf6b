"""The test set: apart from validation and training, answered by every policy, seen by no engineer."""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import flows.curriculum
from engineer.gate import BASE_POLICY
from engineer.prompt import design_prompt
from envgen import registry
from envgen.dataset import write_dataset
from envgen.errors import ConfigError
from envgen.files import write_json
from flows.cli import app
from infra import tables
from infra.config.preset import load_preset
from infra.results import CurriculumResults
from infra.runs import files
from infra.runs.context import design_context
from infra.runs.files import TEST, TEST_ROLLOUTS, TRAIN_DATA, VALIDATION, File
from infra.runs.run import Run
from infra.runs.steps import read_records
from policy.checkpoints import SIMULATED_STATE
from policy.learner import Learner
from policy.rollouts import breakdown_of
from policy.simulated import SimulatedModel, SimulatedPolicy
from tasks.data import generate, make_test, make_validation
from tasks.learn import evaluate_test

STEPS = ("make_validation", "make_test", "generate", "train", "evaluate_start", "evaluate_stage")
STEPS += ("evaluate_test", "summarize", "judge", "propose", "write_manifest", "publish", "stage")
SMALL = {"instances": 16, "stages": 2, "validation.instances": 2}
PART = {"data_ratio": 1, "hole_ratio": 0.5, "wait_ratio": 0.25}
CROWDED: dict[str, Any] = {"environment.options": {"agents": 2, "map_sizes": [3], "max_hole_ratio": 0.5}}
CROWDED |= {"default_config": {"sizes": {3: PART}}, "instances": 60}
CROWDED |= {"validation": {"grid": {"wait_ratio": [0.25], "hole_ratio": [0.5]}, "instances": 20}}
"""Few distinct boards exist."""


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Run, CurriculumResults]]:
    """Run a preset of the simulated learner in the folder `name`, without Prefect and MLflow."""
    for step in STEPS:
        monkeypatch.setattr(flows.curriculum, step, getattr(flows.curriculum, step).fn)
    for name in ("record_start", "show_result"):
        monkeypatch.setattr(flows.curriculum, name, lambda *_: None)
    monkeypatch.setattr(flows.curriculum, "record_stages", lambda *_: {})
    for module in ("tasks.record", "tasks.design"):
        monkeypatch.setattr(f"{module}.logged", lambda *_: None)

    def run(name: str, source: str = "simulated", **settings: Any) -> tuple[Run, CurriculumResults]:
        preset = load_preset(source, SMALL | settings)
        results = flows.curriculum.run_curriculum(preset, tmp_path / name)
        return Run(directory=tmp_path / name), results

    return run


def simulated(folder: Path, **settings: Any) -> Run:
    return Run(directory=folder, chosen=load_preset("simulated", SMALL | settings))


def ids(run: Run, file: File[Any], stage: int | None = None) -> list[str]:
    if file in (files.ROLLOUTS, TEST_ROLLOUTS):
        return [rollout.instance.id for rollout in run.read(file, stage)]
    return [instance.id for instance in run.read(file, stage)]


@pytest.mark.slow
def test_every_policy_answers_the_test_set_and_nothing_of_it_reaches_engineer_and_gate(play):
    run, results = play("with", test={"instances": 1})
    plain, before = play("without")
    tested = [results.test_start, *(stage.test for stage in results.stages)]
    for number, part in zip((BASE_POLICY, 0, 1), tested, strict=True):
        assert ids(run, TEST_ROLLOUTS, number) == ids(run, TEST)
        assert part == breakdown_of(run.preset.task, run.read(TEST_ROLLOUTS, number))
    assert [step.step for step in read_records(run.folder(0))][2:5] == ["evaluate", "test", "summarize"]
    for number in (0, 1):
        assert ids(run, TRAIN_DATA, number) == ids(plain, TRAIN_DATA, number), "no board had to be left out"
        for file in (files.BREAKDOWN, files.CHANGES, files.GATE, files.PROPOSAL):
            assert run.read(file, number) == plain.read(file, number)
        contexts = [design_context(each, number, each.read(files.BREAKDOWN, number)) for each in (run, plain)]
        assert contexts[0] == contexts[1]
        prompts = [design_prompt(context, "V6") for context in contexts]
        assert prompts[0] == prompts[1]
        answered = sum(rollout.completion_tokens for rollout in run.read(TEST_ROLLOUTS, number))
        assert run.read(files.MANIFEST, number)["tokens"]["test"] == answered
        assert results.stages[number].made.tokens == before.stages[number].made.tokens + answered
    assert before.test_start is None
    assert not list(plain.directory.rglob("*test*"))
    rows = tables.rates(results, "optimal")
    assert list(rows["policy"])[2:4] == ["after stage 0", "after stage 0, test set"]
    assert rows["valid"][3] == results.stages[0].test.overall.valid_rate
    assert list(tables.rates(before, "optimal")["policy"]) == list(rows["policy"])[::2]


@pytest.mark.slow
def test_a_run_that_wrecks_its_policy_ends_with_the_base_policy(play, tmp_path: Path):
    skills = dict.fromkeys(load_preset("simulated").space.names, (3.0, 0.0, 3.0))
    knowing = SimulatedPolicy(learner=Learner(noise=15), skills=skills)
    write_json(tmp_path / "model" / SIMULATED_STATE, knowing)
    settings = {"model": str(tmp_path / "model"), "engineer.name": "random", "engineer.gate": "rollback"}
    run, results = play("undone", **settings, **{"validation.instances": 10})
    gates = [(stage.gate.action, stage.gate.in_force, stage.gate.dropped) for stage in results.stages]
    assert gates == [("rollback", BASE_POLICY, True)] * 2
    assert [stage.config for stage in results.stages] == [run.preset.default_config] * 2
    assert "The gate rolled back: the run ends with the base policy." in run.read(files.REPORT)


@pytest.mark.slow
def test_a_data_set_runs_through_the_loop_and_its_run_is_shown_without_it(play, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path))
    call = partial(CliRunner().invoke, app, catch_exceptions=False)
    assert call(["new", "environment", "quiz", "--kind", "dataset"]).exit_code == 0
    run, _ = play("of-rows", "./quiz.yaml")
    assert not {*ids(run, VALIDATION)} & {*ids(run, TRAIN_DATA, 0), *ids(run, TRAIN_DATA, 1)}
    assert "medium" in run.read(files.REPORT)
    (tmp_path / "quiz.jsonl").unlink()
    registry._load.cache_clear()  # another process
    assert call(["show", "of-rows"]).stdout.startswith("of-rows: finished")


def test_training_validation_and_test_set_share_no_board_where_boards_are_few(tmp_path: Path):
    drawn = []
    for name, more in (("with", {"test": {"instances": 30}}), ("without", {})):
        run = simulated(tmp_path / name, **CROWDED | more)
        validation = make_validation.fn(run)
        test = make_test.fn(run, None, validation) if more else None
        generate.fn(run, 0, run.preset.default_config, validation, test)
        drawn.append(run)
    run, plain = drawn
    validated, tested, trained = set(ids(run, VALIDATION)), set(ids(run, TEST)), set(ids(run, TRAIN_DATA, 0))
    assert (len(validated), len(tested), len(trained)) == (20, 30, 60)
    assert not validated & tested
    assert not trained & (validated | tested)
    assert tested & set(ids(plain, TRAIN_DATA, 0)), "it would, if the test set were not held out"
    assert run.held_out() == validated | tested
    keys = [read_records(each.folder(0))[0].key for each in drawn]
    assert keys[0] != keys[1]


@pytest.mark.parametrize(("samples", "asked_for"), [(1, [16, 11]), (3, [48, 45])])
def test_a_test_that_was_cut_off_asks_for_the_missing_answers_alone(
    tmp_path, monkeypatch, samples, asked_for
):
    several = {"evaluation": {"samples": samples, "temperature": 0.6}}
    runs = [simulated(tmp_path / name, test={"instances": 2}, **several) for name in ("whole", "cut-off")]
    tests = [make_test.fn(run, None, make_validation.fn(run)) for run in runs]
    evaluate_test.fn(runs[0], BASE_POLICY, runs[0].model(BASE_POLICY), tests[0])
    whole, run = SimulatedModel.complete, runs[1]
    asked: list[int] = []

    def complete(self: SimulatedModel, conversations: list, sampling: Any, progress: Any = None) -> list:
        asked.append(len(conversations))
        if len(asked) == 1:
            whole(self, conversations[:5], sampling, progress)
            raise KeyboardInterrupt
        return whole(self, conversations, sampling, progress)

    monkeypatch.setattr(SimulatedModel, "complete", complete)
    test, base = tests[1], run.model(BASE_POLICY)
    with pytest.raises(KeyboardInterrupt):
        evaluate_test.fn(run, BASE_POLICY, base, test)
    assert (run.folder(BASE_POLICY) / files.PARTIAL_TEST_ROLLOUTS).exists()
    assert not run.has(TEST_ROLLOUTS, BASE_POLICY)
    evaluate_test.fn(run, BASE_POLICY, base, test)
    assert asked == asked_for
    assert ids(run, TEST_ROLLOUTS, BASE_POLICY) == [one for one in ids(run, TEST) for _ in range(samples)]
    assert run.digest(TEST_ROLLOUTS, BASE_POLICY) == runs[0].digest(TEST_ROLLOUTS, BASE_POLICY)
    answers = {(rollout.instance.id, rollout.completion) for rollout in run.read(TEST_ROLLOUTS, BASE_POLICY)}
    assert (len(answers) > 16) == (samples > 1), "answers to an instance differ"
    assert not (run.folder(BASE_POLICY) / files.PARTIAL_TEST_ROLLOUTS).exists()


def test_a_file_is_the_test_set_without_what_is_validated_on(tmp_path, caplog):
    caplog.set_level(logging.INFO, "envwright")
    first = simulated(tmp_path / "first")
    validated = first.preset.validation.draw(first.preset.task)
    others = simulated(tmp_path, **{"validation.seed": 1}).preset
    unseen = others.validation.draw(others.task)
    path, style = tmp_path / "mine.parquet", first.preset.prompt_style

    write_dataset(path, [*validated[:3], *unseen, unseen[0]], style, {})
    run = simulated(tmp_path / "run", **{"test.file": str(path)})
    validation = make_validation.fn(run)
    make_test.fn(run, None, validation)
    assert ids(run, TEST) == [instance.id for instance in unseen]
    assert "3 of 19 are in the validation set: left out" in caplog.text
    before = read_records(run.directory)[1]
    write_dataset(path, unseen[:4], style, {})
    make_test.fn(run, None, validation)
    assert ids(run, TEST) == [instance.id for instance in unseen[:4]]
    assert read_records(run.directory)[1].key != before.key, "its content decides"
    write_dataset(path, validated, style, {})
    with pytest.raises(ConfigError, match="all 16 are in the validation set; give other"):
        make_test.fn(run, None, validation)
