"""A run on rows of a user's table, from the files that `new environment` writes to its report."""

from pathlib import Path

import pytest
from support.envwright_command import envwright

from infra.runs.files import TRAIN_DATA, VALIDATION
from infra.runs.run import Run


@pytest.mark.slow
def test_a_data_set_runs_through_the_loop_without_a_row_in_two_sets(tmp_path: Path, server: str):
    envwright(tmp_path, "new", "environment", "quiz", "--kind", "dataset")
    said = envwright(tmp_path, "run", "./quiz.yaml", "--name", "quiz", PREFECT_API_URL=server).stdout
    assert "stage 0: medium: 12 instances, 0 used before" in said
    run = Run(directory=tmp_path / "runs" / "quiz")
    judged, *trained = (
        {instance.id for instance in run.read(*file)}
        for file in ((VALIDATION,), (TRAIN_DATA, 0), (TRAIN_DATA, 1))
    )
    assert [len(judged), *map(len, trained)] == [18, 24, 24]
    assert not judged & (trained[0] | trained[1])
    assert len(trained[0] | trained[1]) > 24, "what was not used comes first"
    assert "medium" in (run.directory / "report.html").read_text()
    (tmp_path / "quiz.jsonl").unlink()
    assert "quiz" in envwright(tmp_path, "show", "quiz").stdout, "a run is shown without its table"
