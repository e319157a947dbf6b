from pathlib import Path

import pytest

from envgen.dataset import write_dataset
from envgen.prompts import PromptStyle
from infra.preset import load_preset
from infra.steps import StepRecord
from tasks.data import generate
from tasks.run import RunRef

VALIDATION = StepRecord(step="validation", key="of-the-validation-set", outputs={}, seconds=0)


def generated(folder: Path, stage: int, **overrides: int) -> StepRecord:
    run = RunRef(directory=folder, preset=load_preset("micro", dict(overrides)))
    write_dataset(run.validation, [], PromptStyle.COMPACT, {})
    return generate.fn(run, stage, run.preset.default_config, VALIDATION)


@pytest.mark.parametrize("stage", [0, 1])
def test_runs_that_share_the_seed_of_stage_0_share_its_data_and_no_other(tmp_path: Path, stage: int):
    one = generated(tmp_path / "one", stage, seed=3)
    other = generated(tmp_path / "other", stage, seed=4, stage0_seed=3)
    assert ((one.key, one.outputs) == (other.key, other.outputs)) is (stage == 0)
    assert (one.outputs["train.parquet"] == other.outputs["train.parquet"]) is (stage == 0)
