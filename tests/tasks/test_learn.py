"""The engine of a stage: one for all that is asked of a policy, and gone before its weights are trained."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from factories import finished_run

from engineer.gate import BASE_POLICY
from envgen.errors import ChildError, DataError
from infra.config.preset import load_preset
from infra.runs.files import TRAIN_DATA
from infra.runs.run import Run, open_run
from infra.runs.steps import Stored
from policy.warm_start import WarmStartRecipe
from tasks import design, learn, warm_start
from tasks.data import make_test, make_validation
from tasks.learn import evaluate_start, evaluate_test, train
from tasks.run import close_engine, engine


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_one_engine_answers_all_that_a_policy_is_asked_and_is_closed_before_training(tmp_path, monkeypatch):
    run = Run(directory=tmp_path, chosen=load_preset("micro", {"validation.instances": 1, "test": {}}))
    seen = []

    def trainer(*given: object, **named: object) -> None:
        """Stands in for the trainer, which would take minutes, and looks at what it finds."""
        seen.append(asked._child)
        raise ChildError("looked")

    monkeypatch.setattr(learn, "run_child", trainer)
    try:
        base, validation = run.model(BASE_POLICY), make_validation.fn(run)
        evaluate_start.fn(run, BASE_POLICY, base, validation)
        first = engine(run.policy(-1), run.preset.engine, tmp_path / "other.log", {})
        evaluate_test.fn(run, BASE_POLICY, base, make_test.fn(run, None, validation))
        asked = engine(run.policy(-1), run.preset.engine, tmp_path / "other.log", {})
        assert asked is first
        assert asked._child is not None, "the engine of the evaluation goes on"
        assert not (tmp_path / "other.log").exists()
        assert not list(run.folder(BASE_POLICY).glob("*.partial*"))
        with pytest.raises(ChildError, match="looked"):
            train.fn(run, 0, Stored(path=run.path(TRAIN_DATA, 0), sha256=""), run.model(BASE_POLICY))
        assert seen == [None]
    finally:
        close_engine()


def test_a_run_whose_base_policy_solves_nothing_stops_before_training_unless_it_is_told_to_go_on(tmp_path):
    learn.require_solved(finished_run(tmp_path / "one", correct=(1, 1)))
    none = finished_run(tmp_path / "none", correct=(0, 0))
    with pytest.raises(DataError, match=r"none of 20 validation instances.*--set unsolved=train"):
        learn.require_solved(none)
    preset = none.preset.model_copy(update={"unsolved": "train"})
    learn.require_solved(open_run(none.directory, preset))


def test_variables_of_the_chat_template_reach_all_that_ask_and_decide_what_they_made(tmp_path, monkeypatch):
    settings = {"enable_thinking": False}
    preset = load_preset("micro", {"chat_template_kwargs": settings, "validation.instances": 1})
    run, plain = (Run(directory=tmp_path, chosen=each) for each in (preset, load_preset("micro")))
    seen = []

    def child(module: str, spec: Any, *_: object, **__: object) -> None:
        seen.append(spec.chat_template_kwargs)
        raise ChildError("looked")

    def start(source: str, config: object, log: Path, template_kwargs: dict) -> None:
        seen.append(template_kwargs)
        raise ChildError("looked")

    monkeypatch.setattr(learn, "run_child", child)
    monkeypatch.setattr(warm_start, "run_child", child)
    monkeypatch.setattr("tasks.run.start_engine", start)
    base, data = run.model(BASE_POLICY), Stored(path=run.path(TRAIN_DATA, 0), sha256="")
    validation, go_on = make_validation.fn(run), SimpleNamespace(action="go-on")
    recipe = WarmStartRecipe(steps=2, evaluation_instances=1)
    for ask in (
        lambda: train.fn(run, 0, data, base),
        lambda: evaluate_start.fn(run, BASE_POLICY, base, validation),
        lambda: design._proposal(run, 0, None, go_on),  # type: ignore[arg-type]
        lambda: warm_start.warm_start(tmp_path / "warm", preset, recipe),
    ):
        with pytest.raises(ChildError, match="looked"):
            ask()
    assert seen == [settings] * 4
    for decides in (learn._trained, learn._answered):
        assert decides(run, 0) != decides(plain, 0)
