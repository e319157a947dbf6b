"""A run goes on on another machine from its copy in an S3 bucket, over HTTP."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.s3_and_postgres import s3

NAME = "micro-checkpoint-V6-s0"
REMOTE = "s3://envwright/copies"
COPY = """
import sys
from pathlib import Path
from infra.runs.sync import pull, push
way, remote, directory = sys.argv[1:]
print(push(Path(directory), remote) if way == "push" else pull(remote, Path(directory)))
"""


def python(environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_run_fetched_from_a_bucket_is_not_run_again(tmp_path: Path):
    with s3(tmp_path) as keys:
        runs = tmp_path / "runs"
        places = {
            "ENVWRIGHT_RUNS": str(runs),
            "ENVWRIGHT_REMOTE": REMOTE,
            "PREFECT_HOME": str(tmp_path / "prefect"),
        }
        environment = {**os.environ, **keys, **places, "OMP_NUM_THREADS": "1"}
        python(environment, "-m", "flows.cli", "run", "micro")
        python(environment, "-c", COPY, "push", REMOTE, str(runs / NAME))
        assert python(environment, "-c", COPY, "push", REMOTE, str(runs / NAME)) == "0\n"
        manifests = {
            path.parent.name: path.read_bytes() for path in (runs / NAME).glob("stage-*/manifest.json")
        }
        records = {path: path.read_bytes() for path in (runs / NAME).rglob(".steps/*.json")}
        assert sorted(manifests) == ["stage-00", "stage-01"]
        assert records
        shutil.rmtree(runs)
        assert "'stage-00', 'stage-01'" in python(environment, "-c", COPY, "pull", REMOTE, str(runs / NAME))
        before = {path: path.stat().st_mtime_ns for path in records}
        python(environment, "-m", "flows.cli", "run", "micro")
        assert {path: path.read_bytes() for path in records} == records
        assert {path: path.stat().st_mtime_ns for path in records} == before, "no step was done again"
        assert {
            path.parent.name: path.read_bytes() for path in (runs / NAME).glob("stage-*/manifest.json")
        } == manifests
