"""What is loaded with what. What a file may import at all is held by the contracts of import-linter in
pyproject.toml."""

import json
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
HEAVY = {"torch", "transformers", "trl", "vllm", "datasets", "accelerate"}

LOAD = """
import importlib, json, pkgutil, sys
names = [n for n in sys.argv[1:] if not n.endswith(".*")]
for room in (n[:-2] for n in sys.argv[1:] if n.endswith(".*")):
    package = importlib.import_module(room)
    names += [module.name for module in pkgutil.walk_packages(package.__path__, room + ".")]
names = [name for name in names if not name.endswith("_skeleton")]  # a file for users
for name in names:
    importlib.import_module(name)
print(json.dumps({"loaded": names, "modules": sorted({m.partition(".")[0] for m in sys.modules})}))
"""


def load(*names: str) -> tuple[set[str], set[str]]:
    """Import modules in a fresh interpreter: the modules that were named, and the top-level packages there
    afterwards."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD, *names], cwd=REPOSITORY, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return set(found["loaded"]), set(found["modules"])


def test_the_testbed_and_the_engineer_load_without_model_libraries():
    named, modules = load("envgen.*", "engineer.*")
    assert {
        "envgen.mapf.sampler",
        "envgen.mapf.solver.solve",
        "engineer.propose",
    } <= named
    assert not modules & (HEAVY | {"prefect", "mlflow"})


def test_settings_and_specs_load_without_model_libraries():
    specs = [
        "infra.config.preset",
        "infra.config.settings",
        "infra.results",
        "infra.runs.run",
        "infra.runs.steps",
        "flows.cli",
    ]
    specs += [
        "policy.grpo.train_spec",
        "policy.grpo.train_log",
        "policy.chat.engine",
        "policy.chat.contract",
        "policy.grpo.rewards",
        "policy.checkpoints",
        "policy.warm_start",
    ]
    named, modules = load(*specs)
    assert named == set(specs)
    assert not modules & (HEAVY | {"prefect", "mlflow"})


def test_what_runs_beside_a_child_loads_without_torch():
    """The parent of training and generation never holds a model library."""
    _, modules = load(
        "tasks.*",
        "flows.curriculum",
        "policy.child",
        "policy.chat.engine",
        "policy.evaluation",
        "policy.rollouts",
    )
    assert "prefect" in modules
    assert not modules & {"torch", "trl", "vllm"}


def test_the_client_library_of_endpoints_is_loaded_only_when_a_model_is_asked():
    _, modules = load("engineer.*", "policy.chat.endpoint", "infra.config.preset")
    assert not modules & {"openai", "httpx2", "torch"}
