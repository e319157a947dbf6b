"""A study on the micro preset, for real: killed in the middle, resumed, and drawn again from what it
stored."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from infra.analysis.gather import final
from infra.analysis.spec import SHARED
from infra.analysis.study.findings import policies
from infra.analysis.study.records import read_round

SPEC = {
    "name": "short",
    "preset": "micro",
    "test": {
        "boards": {2: [7], 3: [4]},
        "wait_ratios": [0.5],
        "hole_ratios": [0.2],
        "instances": 4,
        "seed": 5,
        "answer_tokens": 64,
    },
    "rounds": [
        {
            "number": 1,
            "seeds": [1, 2],
            "primary": "random+piloted",
            "groups": [
                {"engineers": ["fixed", "random"]},
                {
                    "name": "piloted",
                    "engineers": ["random"],
                    "settings": {"engineer.candidates": 2, "engineer.pilot": 2},
                },
            ],
        }
    ],
}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_study_that_was_killed_goes_on_and_is_drawn_again_from_its_answers(tmp_path: Path):
    spec = tmp_path / "short.yaml"
    spec.write_text(yaml.safe_dump(SPEC))
    environment = {
        **os.environ,
        "ENVWRIGHT_RUNS": str(tmp_path / "runs"),
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "COLUMNS": "100",
    }
    environment.pop("MLFLOW_TRACKING_URI", None)
    command = [sys.executable, "-m", "flows.cli", "study", str(spec), "--jobs", "2"]
    directory = tmp_path / "runs" / "study-short"

    with open(tmp_path / "killed.log", "w") as log:
        process = subprocess.Popen(
            command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        deadline = time.monotonic() + 240
        while not (directory / "round-1" / "fixed-s1" / "stage-01" / "checkpoint").exists():
            assert process.poll() is None, (tmp_path / "killed.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    data = directory / "study"
    found = read_round(data, 1)
    assert found.stored.arms == ("fixed", "random", "random+piloted")
    assert all(len(found.runs(arm)) == 2 for arm in found.stored.arms)
    assert final(policies(found, "test")["random"], "valid").shape == (2, 8)
    assert {stage for policy, stage, name in found.outcomes if policy == SHARED and name == "test"} == {-1, 0}
    weights = [
        path.read_bytes() for path in (directory / "round-1").glob("*/stage-00/checkpoint/model.safetensors")
    ]
    assert (len(weights), len(set(weights))) == (7, 1), "stage 0 is trained once a round"

    page = (directory / "study.md").read_text()
    again = subprocess.run(
        [*command[:5], "--data", str(data), "-o", str(tmp_path / "again")],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert again.returncode == 0, again.stdout + again.stderr
    assert (tmp_path / "again" / "study.md").read_text() == page
    assert pq.read_metadata(data / "round-1" / "answers.parquet").num_rows == 8 * (2 + 6) + 32 * (2 + 6)
