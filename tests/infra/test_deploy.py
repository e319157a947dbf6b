"""The files for servers and clusters: they parse, agree with each other, and the tools that they are for take
them."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.client.orchestration import PrefectClient
from support.prefect_servers import ask, prefect_server

from infra.serving.names import TAG

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "infra" / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
POOL = json.loads((DEPLOY / "kubernetes-pool.json").read_text())
MANIFESTS = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
SLURM = DEPLOY / "slurm" / "worker.sbatch"


def named(kind: str) -> dict[str, Any]:
    return next(manifest for manifest in MANIFESTS if manifest["kind"] == kind)


def test_every_service_is_pinned_and_open_to_this_machine_only():
    for name, service in COMPOSE["services"].items():
        assert re.search(r":[\w.-]*\d", service["image"]), name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name


def test_long_running_servers_have_health_checks_and_named_volumes():
    services = COMPOSE["services"]
    assert {name for name, service in services.items() if "healthcheck" in service} == {
        "postgres",
        "s3",
        "prefect",
        "mlflow",
    }
    for name in ("postgres", "s3", "prefect", "worker"):
        assert any(volume.partition(":")[0] in COMPOSE["volumes"] for volume in services[name]["volumes"]), (
            name
        )


def test_secrets_come_from_the_environment_alone():
    asked = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text()))
    offered = {
        line.partition("=")[0]
        for line in (DEPLOY / ".env.example").read_text().splitlines()
        if "=" in line and not line.startswith("#")
    }
    assert asked == offered - {"COMPOSE_PROJECT_NAME"}
    ignored = subprocess.run(["git", "check-ignore", "infra/deploy/.env"], cwd=ROOT, capture_output=True)
    assert ignored.returncode in {0, 128}, "the file with the secrets is not committed"


def test_prefect_asks_every_caller_for_the_auth_string_that_workers_and_deployments_have():
    prefect, *callers = (
        COMPOSE["services"][name]["environment"]
        for name in ("prefect", "deployments", "worker", "worker-gpu")
    )
    assert {caller["PREFECT_API_AUTH_STRING"] for caller in callers} == {
        prefect["PREFECT_SERVER_API_AUTH_STRING"]
    }
    assert "*" not in prefect["PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS"]
    secret = named("Secret")
    assert "PREFECT_API_AUTH_STRING" in secret["stringData"]
    for container in named("Deployment")["spec"]["template"]["spec"]["containers"]:
        [given] = [
            variable["valueFrom"]["secretKeyRef"]
            for variable in container["env"]
            if variable["name"] == "PREFECT_API_AUTH_STRING"
        ]
        assert given == {"name": secret["metadata"]["name"], "key": "PREFECT_API_AUTH_STRING"}


def test_the_image_takes_every_room_and_every_extra_of_the_servers():
    text = (DEPLOY / "Dockerfile").read_text()
    for room in ("envgen", "policy", "engineer", "infra", "tasks", "flows"):
        assert f"COPY {room} {room}" in text
    assert ".[kubernetes,postgres,s3]" in text
    files = re.findall(r"^COPY (.* )\./$", text, re.M)[0].split()
    assert "prefect.yaml" in files
    assert all(f"!{name}" in (ROOT / ".dockerignore").read_text().splitlines() for name in files), (
        "the build sees them"
    )


def test_the_worker_starts_once_the_image_has_made_its_deployments():
    deployments, worker = (COMPOSE["services"][name] for name in ("deployments", "worker"))
    assert deployments["command"].startswith("envwright deploy")
    assert (deployments["image"], deployments["restart"]) == (worker["image"], "no")
    assert deployments["environment"] == worker["environment"]
    assert deployments["depends_on"]["prefect"] == {"condition": "service_healthy"}
    assert worker["depends_on"]["deployments"] == {"condition": "service_completed_successfully"}
    assert COMPOSE["services"]["janitor"]["command"] == "envwright janitor"


def test_the_cluster_makes_its_deployments_with_the_image_and_the_secret_of_its_jobs():
    [container] = named("Job")["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["envwright", "deploy", "--keep-pools"]
    assert container["image"] == POOL["variables"]["properties"]["image"]["default"]
    assert container["envFrom"] == [{"secretRef": {"name": named("Secret")["metadata"]["name"]}}]


def test_every_deployment_carries_the_tag_that_the_janitor_looks_for():
    project = yaml.safe_load((ROOT / "prefect.yaml").read_text())
    assert all(TAG in deployment["tags"] for deployment in project["deployments"])


@pytest.mark.skipif(not shutil.which("docker-compose"), reason="docker-compose is not installed")
def test_compose_takes_the_file():
    command = ["docker-compose", "--env-file", ".env.example", "-f", "compose.yaml", "config", "--quiet"]
    done = subprocess.run(command, cwd=DEPLOY, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_job_template_names_what_the_manifests_make():
    defaults = {name: variable.get("default") for name, variable in POOL["variables"]["properties"].items()}
    assert defaults["namespace"] == named("Namespace")["metadata"]["name"]
    assert defaults["runs_claim"] == named("PersistentVolumeClaim")["metadata"]["name"]
    assert defaults["secret"] == named("Secret")["metadata"]["name"]
    assert defaults["service_account_name"] == named("ServiceAccount")["metadata"]["name"]
    assert defaults["image"] == COMPOSE["services"]["worker"]["image"].partition(":-")[2].rstrip("}")
    used = set(re.findall(r"\{\{ (\w+) \}\}", json.dumps(POOL["job_configuration"])))
    assert used == set(POOL["variables"]["properties"])


def test_prefect_renders_a_job_with_a_gpu_and_shared_memory():
    worker = pytest.importorskip(
        "prefect_kubernetes.worker",
        reason="prefect-kubernetes is not installed (pip install -e '.[kubernetes]')",
    )
    values = {"gpus": 2, "shared_memory": "8Gi", "command": "prefect flow-run execute"}
    # A template without blocks asks no server; without a client given, one would be started.
    client = PrefectClient("http://127.0.0.1:1/api")
    configuration = asyncio.run(
        worker.KubernetesWorkerJobConfiguration.from_template_and_values(POOL, values, client=client)
    )
    pod = configuration.job_manifest["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 2
    assert pod["volumes"][1] == {
        "name": "shared-memory",
        "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"},
    }
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/runs", "/dev/shm"}
    assert container["envFrom"] == [{"secretRef": {"name": "envwright"}}]
    assert "{{" not in json.dumps(configuration.job_manifest["spec"])


@pytest.mark.slow
def test_a_prefect_server_takes_the_pool_and_deployments_for_it_without_credentials(tmp_path: Path):
    pytest.importorskip(
        "prefect_kubernetes", reason="prefect-kubernetes is not installed (pip install -e '.[kubernetes]')"
    )
    with prefect_server(tmp_path) as url:
        environment = {
            **os.environ,
            "PREFECT_HOME": str(tmp_path / "home"),
            "PREFECT_API_URL": url,
            "MLFLOW_TRACKING_URI": "http://me:hidden@mlflow.example",
        }

        def call(*command: str) -> subprocess.CompletedProcess:
            return subprocess.run(
                [sys.executable, "-m", *command], env=environment, capture_output=True, text=True, timeout=200
            )

        template = ["--base-job-template", str(DEPLOY / "kubernetes-pool.json")]
        made = call("prefect", "work-pool", "create", "gpu", "--type", "kubernetes", *template)
        assert "Created work pool 'gpu'" in made.stdout, made.stdout + made.stderr
        refused = call("flows.cli", "deploy")
        assert (refused.returncode, "--keep-pools" in refused.stderr) == (2, True), (
            refused.stdout + refused.stderr
        )
        done = call("flows.cli", "deploy", "--keep-pools")
        assert done.returncode == 0, done.stdout + done.stderr
        found = {deployment["name"]: deployment for deployment in ask(f"{url}/deployments/filter")}
        variables = found["qwen3-4b"]["job_variables"]["env"]
        assert (found["qwen3-4b"]["work_pool_name"], found["qwen3-4b"]["tags"]) == (
            "gpu",
            ["envwright", "curriculum"],
        )
        assert variables["ENVWRIGHT_RUNS"] == os.environ["ENVWRIGHT_RUNS"]
        assert "MLFLOW_TRACKING_URI" not in variables
        assert "hidden" not in json.dumps(found) + done.stdout + done.stderr


def test_the_batch_script_is_shell_and_passes_the_linter():
    assert subprocess.run(["bash", "-n", str(SLURM)]).returncode == 0
    if shutil.which("shellcheck"):
        linted = subprocess.run(["shellcheck", "--shell=bash", str(SLURM)], capture_output=True, text=True)
        assert linted.returncode == 0, linted.stdout
