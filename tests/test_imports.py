"""What may import what: the rooms in order, and settings without torch."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
ROOMS = ["envgen", "policy", "engineer", "infra", "tasks", "flows"]
MAY_IMPORT = {
    "envgen": set(),
    "policy": {"envgen"},
    "engineer": {"envgen", "policy"},
    "infra": {"envgen", "policy", "engineer"},
    "tasks": {"envgen", "policy", "engineer", "infra"},
    "flows": {"envgen", "policy", "engineer", "infra", "tasks"},
}
HEAVY = {"torch", "transformers", "trl", "vllm", "datasets", "accelerate"}

LOAD = """
import importlib, json, pkgutil, sys
names = [n for n in sys.argv[1:] if not n.endswith(".*")]
for room in (n[:-2] for n in sys.argv[1:] if n.endswith(".*")):
    package = importlib.import_module(room)
    names += [module.name for module in pkgutil.walk_packages(package.__path__, room + ".")]
for name in names:
    importlib.import_module(name)
print(json.dumps({"loaded": names, "modules": sorted({m.partition(".")[0] for m in sys.modules})}))
"""


def load(*names: str) -> tuple[set[str], set[str]]:
    """Import modules in a fresh interpreter: the modules that were named, and the top-level packages there afterwards."""
    done = subprocess.run([sys.executable, "-c", LOAD, *names], cwd=REPOSITORY, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return set(found["loaded"]), set(found["modules"])


def sources(room: str) -> list[Path]:
    return [path for path in (REPOSITORY / room).rglob("*.py") if "__pycache__" not in path.parts]


def imports_of(path: Path) -> set[str]:
    """Dotted names that a file imports anywhere, inside of functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def importers(room: str, forbidden: set[str]) -> list[str]:
    """The files of a room that import a package, as 'file: package'."""
    return sorted(f"{path.relative_to(REPOSITORY)}: {name}" for path in sources(room) for name in imports_of(path) if name.partition(".")[0] in forbidden)


def test_the_testbed_and_the_engineer_load_without_model_libraries():
    named, modules = load("envgen.*", "engineer.*")
    assert {"envgen.sampler", "envgen.solver", "engineer.designers", "engineer.lessons"} <= named
    assert not modules & (HEAVY | {"prefect", "mlflow"})


def test_settings_and_specs_load_without_model_libraries():
    specs = ["infra.preset", "infra.settings", "infra.runs.results", "infra.runs.run", "infra.runs.steps", "flows.cli"]
    specs += ["policy.train_spec", "policy.train_log", "policy.engine", "policy.chat", "policy.rewards", "policy.checkpoints", "policy.tiny.spec"]
    named, modules = load(*specs)
    assert named == set(specs)
    assert not modules & (HEAVY | {"prefect", "mlflow"})


def test_nothing_is_compiled_before_the_first_plan_is_judged():
    named, modules = load("envgen.verifier", "envgen.judging", "policy.rewards", "policy.rollouts", "policy.evaluation")
    assert "envgen.verifier" in named
    assert not modules & {"numba", "llvmlite"}


def test_what_runs_beside_a_child_loads_without_torch():
    """The parent of training and generation never holds a model library."""
    _, modules = load("tasks.*", "flows.curriculum", "policy.child", "policy.engine_child", "policy.evaluation", "policy.rollouts")
    assert "prefect" in modules
    assert not modules & {"torch", "trl", "vllm"}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_lies_below_it(room: str):
    assert sources(room)
    assert importers(room, set(ROOMS) - MAY_IMPORT[room] - {room}) == []


def test_the_testbed_knows_no_models_and_no_orchestrator():
    assert importers("envgen", HEAVY | {"prefect", "mlflow"}) == []


def test_the_engineer_sees_no_orchestrator_no_record_and_of_the_policy_only_the_chat_model():
    assert importers("engineer", HEAVY | {"prefect", "mlflow"}) == []
    policy = {name for path in sources("engineer") for name in imports_of(path) if name.startswith("policy.")}
    assert policy
    side = ("policy.chat", "policy.endpoint", "policy.openai_model")
    assert {name for name in policy if not any(name == module or name.startswith(f"{module}.") for module in side)} == set()


def test_the_client_library_of_endpoints_is_loaded_only_when_a_model_is_asked():
    _, modules = load("engineer.*", "policy.endpoint", "infra.preset")
    assert not modules & {"openai", "httpx2", "torch"}


def test_only_tasks_and_flows_know_prefect_and_only_infra_records():
    for room in ("envgen", "policy", "engineer"):
        assert importers(room, {"prefect", "mlflow"}) == []
    for room in ("tasks", "flows"):
        assert importers(room, {"mlflow"}) == []


def test_the_engineer_imports_neither_rewards_nor_instances():
    for path in sources("engineer"):
        imported = imports_of(path)
        assert not {name for name in imported if name.startswith(("policy.rewards", "envgen.dataset", "envgen.problem", "policy.rollouts"))}
