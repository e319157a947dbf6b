"""The same command with PostgreSQL behind Prefect and MLflow, and MLflow's artifacts in an S3 bucket."""

from pathlib import Path

import pytest
from mlflow import MlflowClient
from support.envwright_command import envwright
from support.prefect_servers import states
from support.s3_and_postgres import client, servers_on_stores

NAME = "micro-checkpoint-V6-s0"


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_curriculum_is_recorded_in_postgres_and_a_bucket(tmp_path: Path):
    with servers_on_stores(tmp_path) as servers:
        reached = {name: servers[name] for name in ("PREFECT_API_URL", "MLFLOW_TRACKING_URI")}
        done = envwright(tmp_path, "run", "micro", **reached)
        assert "not logged" not in done.stdout + done.stderr
        names = [NAME, "stage 0 · checkpoint-V6", "stage 1 · checkpoint-V6"]
        assert states(servers["PREFECT_API_URL"]) == dict.fromkeys(names, "COMPLETED")
        _check_mlflow(servers["MLFLOW_TRACKING_URI"])
        stored = client(servers).list_objects_v2(Bucket="envwright", Prefix="mlflow/")["Contents"]
        files = {entry["Key"].rpartition("/")[2] for entry in stored}
        assert {"manifest.json", "results.json", "report.html", "proposal.json"} <= files


def _check_mlflow(uri: str) -> None:
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("envwright/micro")
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
