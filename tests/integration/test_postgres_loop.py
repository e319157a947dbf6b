"""The same command with PostgreSQL behind Prefect and MLflow, and MLflow's artifacts in an S3 bucket."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.prefect_servers import ask, states
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
        assert "not recorded" not in done.stdout + done.stderr
        _check_prefect(servers["PREFECT_API_URL"])
        _check_mlflow(servers["MLFLOW_TRACKING_URI"])
        _check_bucket(servers)


def _check_prefect(url: str) -> None:
    assert states(url) == dict.fromkeys(
        [NAME, "stage 0 · checkpoint-V6", "stage 1 · checkpoint-V6"], "COMPLETED"
    )


def _check_mlflow(url: str) -> None:
    api = f"{url}/api/2.0/mlflow"
    named = f"{api}/experiments/get-by-name?experiment_name=envwright%2Fmicro"
    experiment = ask(named, method="GET")["experiment"]
    assert experiment["artifact_location"].startswith("mlflow-artifacts:/")
    runs = ask(f"{api}/runs/search", {"experiment_ids": [experiment["experiment_id"]]})["runs"]
    stages = [run for run in runs if {"key": "level", "value": "stage"} in run["data"]["tags"]]
    assert sorted(tag["value"] for run in runs for tag in run["data"]["tags"] if tag["key"] == "level") == [
        "curriculum",
        "stage",
        "stage",
        "start",
    ]
    for run in stages:
        contexts = {
            tag["value"]
            for data in run["inputs"]["dataset_inputs"]
            for tag in data["tags"]
            if tag["key"] == "mlflow.data.context"
        }
        assert contexts == {"training", "validation"}
    models = ask(f"{api}/logged-models/search", {"experiment_ids": [experiment["experiment_id"]]})["models"]
    names = sorted(model["info"]["name"] for model in models)
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
