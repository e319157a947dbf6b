"""What is loaded with what. What a file may import at all is held by the contracts of import-linter in
pyproject.toml."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

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


SERVICES = {"prefect", "mlflow"}
SPECS = [
    f"infra.{name}" for name in ("config.preset", "config.settings", "results", "runs.run", "runs.steps")
]
SPECS += [f"policy.{name}" for name in ("chat.contract", "chat.engine", "checkpoints", "warm_start")]
SPECS += [f"policy.grpo.{name}" for name in ("rewards", "train_log", "train_spec")]
CHILDREN = [f"policy.{name}" for name in ("chat.engine", "child", "evaluation", "rollouts")]
CASES = {
    "testbed and engineer": (["envgen.*", "engineer.*"], HEAVY | SERVICES),
    "settings and specs": ([*SPECS, "flows.cli"], HEAVY | SERVICES),
    "beside a child": (["tasks.*", "flows.curriculum", *CHILDREN], {"torch", "trl", "vllm"}),
    "no model asked": (["engineer.*", *SPECS[:1], "policy.chat.endpoint"], {"openai", "httpx2", "torch"}),
}


@pytest.mark.parametrize(("names", "without"), CASES.values(), ids=CASES)
def test_modules_load_without_libraries_that_only_some_need(names: list[str], without: set[str]):
    """In a fresh interpreter."""
    command = [sys.executable, "-c", LOAD, *names]
    seen = json.loads(subprocess.check_output(command, cwd=REPOSITORY, timeout=120))
    assert len(seen["loaded"]) >= len(names)
    assert not set(seen["modules"]) & without
