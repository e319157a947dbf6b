"""The engine of a stage: one for all that is asked of a policy, and gone before its weights are trained."""

from pathlib import Path

import pytest

from envgen.errors import ChildError
from infra.preset import load_preset
from infra.steps import StepRecord
from tasks import learn
from tasks.data import make_validation
from tasks.learn import evaluate_start, train
from tasks.run import Parent, RunRef, close_engine, engine

DONE = StepRecord(step="generate", key="data", outputs={}, seconds=0)


@pytest.mark.timeout(120)
def test_one_engine_answers_all_that_a_policy_is_asked_and_is_closed_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = RunRef(directory=tmp_path, preset=load_preset("micro", {"validation.instances": 1}))
    seen = []

    def trainer(*given: object) -> None:
        """Stands in for the trainer, which would take minutes, and looks at what it finds."""
        seen.append(asked.replicas[0].pid)
        raise ChildError("looked")

    monkeypatch.setattr(learn, "run_child", trainer)
    try:
        evaluate_start.fn(run, make_validation.fn(run))
        asked = engine(run.policy(-1), run.preset.engine, tmp_path / "other.log")
        assert asked.replicas[0].pid is not None, "the engine of the evaluation goes on"
        assert not (tmp_path / "other.log").exists()
        assert not list(run.start.glob("*.partial*"))
        with pytest.raises(ChildError, match="looked"):
            train.fn(run, 0, DONE, Parent(stage=-1, identity="start"))
        assert seen == [None]
    finally:
        close_engine()
