"""`envwright profile`: pass rates of rows, and strata made of them."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import tasks.profile
from envgen.errors import DataError
from envgen.registry import EnvironmentSpec
from infra.config.preset import load_preset
from policy.simulated import SimulatedModel


@pytest.fixture
def profiled(envwright):
    assert envwright("new", "environment", "quiz", "--kind", "dataset").code == 0
    return lambda: envwright("profile", "./quiz.yaml", "--answers", "4")


def test_pass_rates_of_all_rows_make_strata_by_difficulty(profiled, tmp_path: Path):
    said = profiled()
    assert said.code == 0, said
    [file] = (tmp_path / "runs" / "profiles").glob("quiz-*/profile.parquet")
    rows = pq.read_table(file).to_pylist()
    assert len(rows) == 60
    means = [sum(r["pass_rate"] for r in rows if r["stratum"] == name) / 20 for name in ("easy", "hard")]
    assert means[0] > means[1] + 0.3, "the simulated learner knows the first stratum best"
    strata = {"column": "pass_rate", "bins": [0, 0.3, 1]}
    parts = {"strata": {"0_to_0_3": {"data_ratio": 0.5}, "0_3_to_1": {"data_ratio": 0.5}}}
    options = {"source": str(file), "strata": strata, "prompt": "prompt", "scorer": "number"}
    preset = load_preset("./quiz.yaml", {"environment.options": options, "default_config": parts})
    assert preset.task.capacity("0_to_0_3") == sum(row["pass_rate"] < 0.3 for row in rows)


def test_a_profile_that_was_cut_off_goes_on_and_is_not_repeated(profiled, monkeypatch: pytest.MonkeyPatch):
    asked, complete = [], SimulatedModel.complete

    def counted(self, conversations, sampling, progress=None):
        asked.append(len(conversations))
        return complete(self, conversations, sampling, progress)

    def cut_off(*_):
        raise DataError("cut off")

    monkeypatch.setattr(SimulatedModel, "complete", counted)
    with monkeypatch.context() as patch:
        patch.setattr(tasks.profile, "pass_rates", cut_off)
        assert "cut off" in profiled().err
    assert [profiled().code, profiled().code] == [0, 0]
    assert asked == [240], "the answers were kept, then the profile"


def test_rollouts_of_nemo_gym_make_a_source(envwright, tmp_path: Path):
    """Columns are as `gym eval run` writes them."""

    def rollout(task: int, place: int, reward: float) -> dict:
        asked = {"input": [{"role": "user", "type": "message", "content": f"{task} + 1?"}], "tools": []}
        ids = {"_ng_task_index": task, "_ng_rollout_index": place, "agent_ref": {"name": "sums"}}
        said = {"output": [{"role": "assistant", "content": [{"text": f"try {place}"}]}], "usage": None}
        scored = {"reward": reward, "verifier": {"answer": task + 1}, "extracted_answer": f"{place}"}
        return {"responses_create_params": asked, "response": said, **scored, **ids}

    rates = {0: (0, 0), 1: (0, 1), 2: (1, 1), 3: (0.5, 1)}
    rows = [rollout(task, n, reward) for n in (0, 1) for task, pair in rates.items() for reward in [pair[n]]]
    (tmp_path / "rollouts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = envwright("profile", "./rollouts.jsonl", "--json")
    assert json.loads(said.out) | {"file": ""} == {"file": "", "prompts": 4, "none": 1, "some": 2, "all": 1}
    strata = {"column": "pass_rate", "bins": [0, 0.6, 1]}
    source = {"source": json.loads(said.out)["file"], "answer": "verifier.answer", "scorer": "number"}
    spec = EnvironmentSpec(name="dataset", options={**source, "strata": strata})
    environment = spec.resolved(tmp_path).load()
    assert [environment.capacity(name) for name in environment.space.names] == [2, 2]
    assert "extracted_answer" not in Path(source["source"]).read_text(), "rollouts of a prompt differ in it"
    del rows[1]["reward"]
    (tmp_path / "rollouts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "line 2: lacks 'reward'; expected" in envwright("profile", "./rollouts.jsonl").err
