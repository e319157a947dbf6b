"""Recording made-up curricula, and what MLflow then holds of them."""

import json

import pytest
from finished_runs import MICRO
from mlflow import MlflowClient
from mlflow.entities import Trace, ViewType

from infra.config.preset import Preset
from infra.runs.run import RunRef
from tasks.lineage import record_lineage, unrecorded

on_a_server_too = pytest.mark.parametrize(
    "store", ["database", pytest.param("server", marks=pytest.mark.slow)], indirect=True
)
"""For what reaches every part of MLflow's interface: runs, data sets, traces, prompts, registered models."""


def preset(name: str, /, **design: object) -> Preset:
    return MICRO.model_copy(update={"name": name, "engineer": MICRO.engineer.model_copy(update=design)})


def record(run: RunRef, *stages: int) -> None:
    for stage in stages or range(run.preset.stages):
        record_lineage.fn(run, stage)
    assert not unrecorded(run.directory)


def experiments(client: MlflowClient) -> list[str]:
    return [one.experiment_id for one in client.search_experiments(filter_string="name LIKE 'envwright/%'")]


def stage_runs(client: MlflowClient, name: str) -> dict:
    """The runs of a curriculum by stage; its own is at None."""
    found = [
        run
        for run in client.search_runs(experiments(client), max_results=1000)
        if run.data.params.get("curriculum") == name
    ]
    [root] = {run.data.tags["mlflow.parentRunId"] for run in found}
    return {
        None: client.get_run(root),
        **{int(run.data.params["stage"]): client.get_run(run.info.run_id) for run in found},
    }


def traces(client: MlflowClient, run_id: str) -> list[Trace]:
    return list(client.search_traces(locations=experiments(client), run_id=run_id))


def everything(client: MlflowClient) -> list[str]:
    """All that MLflow holds, as text that can be compared."""
    where = experiments(client)
    runs = client.search_runs(where, run_view_type=ViewType.ALL, max_results=1000)
    held = [
        f"{json.dumps(run.data.to_dictionary(), sort_keys=True)} {run.inputs} {run.outputs} {run.info.status}"
        for run in runs
    ]
    held += [
        str([(m.step, m.value) for m in client.get_metric_history(run.info.run_id, name)])
        for run in runs
        for name in run.data.metrics
    ]
    held += [
        f"{m.name} {sorted(m.tags.items())} {sorted((x.key, x.value) for x in m.metrics or [])}"
        for m in client.search_logged_models(where, max_results=100)
    ]
    held += [
        f"{trace.info.to_dict()} {[span.to_dict() for span in trace.data.spans]}"
        for trace in client.search_traces(locations=where, max_results=500)
    ]
    held += [
        f"{model.name} {model.aliases} {model.latest_versions}" for model in client.search_registered_models()
    ]
    return sorted(held)
