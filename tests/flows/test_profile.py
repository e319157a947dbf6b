"""`envwright profile`: pass rates of rows, and strata made of them."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import tasks.profile
from envgen.errors import DataError
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
