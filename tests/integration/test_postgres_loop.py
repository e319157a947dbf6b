"""The same command with PostgreSQL behind Prefect and MLflow, and MLflow's artifacts in an S3 bucket."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from mlflow import MlflowClient
from support.prefect_servers import states
from support.s3_and_postgres import servers_on_stores

NAME = "micro-checkpoint-V6-s0"


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_curriculum_is_recorded_in_postgres_and_a_bucket(tmp_path: Path):
    with servers_on_stores(tmp_path) as servers:
        places = {
            "ENVWRIGHT_RUNS": str(tmp_path / "runs"),
            "PREFECT_HOME": str(tmp_path / "client"),
            "OMP_NUM_THREADS": "1",
        }
        reached = {name: servers[name] for name in ("PREFECT_API_URL", "MLFLOW_TRACKING_URI")}
        done = subprocess.run(
            [sys.executable, "-m", "flows.cli", "run", "micro"],
            env={**os.environ, **places, **reached},
            capture_output=True,
            text=True,
            timeout=400,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "not logged" not in done.stdout + done.stderr
        _check_prefect(servers["PREFECT_API_URL"])
        _check_mlflow(servers["MLFLOW_TRACKING_URI"])
        _check_bucket(servers)


def _check_prefect(url: str) -> None:
    assert states(url) == dict.fromkeys(
        [NAME, "stage 0 · checkpoint-V6", "stage 1 · checkpoint-V6"], "COMPLETED"
    )


def _check_mlflow(uri: str) -> None:
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("envwright/micro")
    assert experiment
    assert experiment.artifact_location.startswith("mlflow-artifacts:/")
    place = [experiment.experiment_id]
    runs = client.search_runs(place)
    assert sorted(run.data.tags["level"] for run in runs) == ["curriculum", "stage", "stage", "start"]
    for run in (run for run in runs if run.data.tags["level"] == "stage"):
        assert run.inputs
        contexts = {tag.value for data in run.inputs.dataset_inputs for tag in data.tags}
        assert contexts == {"training", "validation"}
        assert len(client.search_traces(locations=place, run_id=run.info.run_id)) == 1
    names = sorted(model.name for model in client.search_logged_models(place))
    assert names == [f"{NAME}-stage-00", f"{NAME}-stage-01", f"{NAME}-start"]


def _check_bucket(keys: dict[str, str]) -> None:
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=keys["AWS_ENDPOINT_URL"],
        aws_access_key_id="x",
        aws_secret_access_key="x",
        region_name="us-east-1",
    )
    stored = {
        entry["Key"].rpartition("/")[2]
        for entry in client.list_objects_v2(Bucket="envwright", Prefix="mlflow/")["Contents"]
    }
    assert {"manifest.json", "results.json", "report.html", "proposal.json"} <= stored
