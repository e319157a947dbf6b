"""The recipe of the base policy, shrunk: killed and continued, it gives the same weights."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from policy.chat.contract import Sampling, ask
from policy.chat.transformers_model import TransformersModel
from policy.grpo.train_spec import last_checkpoint
from policy.tiny.spec import RATES, Taught

STEPS, SAVE_STEPS = 12, 5
SMALL = {
    "steps": STEPS,
    "warmup_steps": 2,
    "save_steps": SAVE_STEPS,
    "hidden_size": 32,
    "layers": 2,
    "batch_size": 16,
    "design_batch_size": 8,
}


def command(output: Path, **changes: object) -> list[str]:
    settings = [part for field, value in (SMALL | changes).items() for part in ("--set", f"{field}={value}")]
    return [sys.executable, "-m", "flows.cli", "warmstart", "-o", str(output), *settings]


def work_of(output: Path) -> Path:
    return output.with_name(f"{output.name}-work")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {**os.environ, "PREFECT_HOME": str(tmp_path_factory.mktemp("prefect")), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def whole(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base policy made without an interruption."""
    output = tmp_path_factory.mktemp("whole") / "base"
    done = subprocess.run(command(output), env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return output


def killed(output: Path, environment: dict[str, str]) -> None:
    """Leave what a bootstrap leaves that is killed as soon as its first checkpoint is complete."""
    log = output.with_name("killed.log")
    with open(log, "w") as file:
        process = subprocess.Popen(
            command(output), env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        deadline = time.monotonic() + 400
        while last_checkpoint(work_of(output)) is None:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def assert_same_policy(found: Path, expected: Path) -> None:
    ours, theirs = load_file(found / "model.safetensors"), load_file(expected / "model.safetensors")
    assert {name for name in theirs if name not in ours or not torch.equal(ours[name], theirs[name])} == set()
    assert len(ours) == len(theirs)
    for name in ("config.json", "tokenizer.json", "chat_template.jinja", "generation_config.json"):
        assert (found / name).read_bytes() == (expected / name).read_bytes(), name


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_killed_bootstrap_goes_on_and_gives_the_same_weights(
    whole: Path, environment: dict[str, str], tmp_path: Path
):
    output = tmp_path / "base"
    killed(output, environment)
    assert not output.exists()
    work = work_of(output)

    other = subprocess.run(
        command(output, seed=1), env=environment, capture_output=True, text=True, timeout=120
    )
    assert other.returncode == 2
    assert (
        f"{work}: was begun with another recipe and reached checkpoint-{SAVE_STEPS}"
        in other.stderr.replace("\n", "")
    )

    done = subprocess.run(command(output), env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"from step {SAVE_STEPS}\n" in (work / "bootstrap.log").read_text()
    assert_same_policy(output, whole)
    model = TransformersModel(str(output), dtype="float32")
    assert model.complete([ask("Solve 3x3.")], Sampling(max_tokens=4))[0].completion_tokens > 0
    assert (output / RATES).read_bytes() == (whole / RATES).read_bytes()

    again = subprocess.run(command(output), env=environment, capture_output=True, text=True, timeout=120)
    assert again.returncode == 2
    assert "exists already" in again.stderr


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_bootstrap_that_was_killed_behind_its_last_step_is_finished(
    whole: Path, environment: dict[str, str], tmp_path: Path
):
    output = tmp_path / "base"
    work = shutil.copytree(work_of(whole), work_of(output))
    done = subprocess.run(command(output), env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"from step {STEPS}\n" in (work / "bootstrap.log").read_text()
    assert_same_policy(output, whole)
    assert (output / RATES).read_bytes() == (whole / RATES).read_bytes()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_policy_is_made_for_another_environment_and_designs_for_it(
    environment: dict[str, str], tmp_path: Path
):
    """The recipe of docs/bootstrap.md, shrunk; then a run in which the policy is its own engineer."""
    page = (Path(__file__).parents[2] / "docs" / "bootstrap.md").read_text()
    recipe = tmp_path / "sums-base.yaml"
    recipe.write_text(page.partition("```yaml\n")[2].partition("```")[0])
    small = {**SMALL, "evaluation_instances": 10, "longest_answer": 12}
    settings = [part for field, value in small.items() for part in ("--set", f"{field}={value}")]
    begin = [sys.executable, "-m", "flows.cli"]
    made = [*begin, "warmstart", "-o", str(tmp_path / "base"), "--recipe", str(recipe), *settings]
    done = subprocess.run(made, env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    rates = Taught.model_validate_json((tmp_path / "base" / RATES).read_bytes()).after
    assert {lesson: list(strata) for lesson, strata in rates.items()} == {"sums": ["2 terms", "3 terms"]}
    runs = {**environment, "ENVWRIGHT_RUNS": str(tmp_path / "runs")}
    chosen = {"model": tmp_path / "base", "engineer.name": "checkpoint"}
    settings = [part for field, value in chosen.items() for part in ("--set", f"{field}={value}")]
    run = [*begin, "run", "micro-sums", "--name", "own", *settings]
    done = subprocess.run(run, env=runs, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    proposal = json.loads((tmp_path / "runs" / "own" / "stage-00" / "proposal.json").read_text())
    assert list(proposal["config"]["terms"]) == ["2", "3"]
    asked = "Design the next training environment of a policy that adds whole numbers."
    assert proposal["prompt"].startswith(asked), "in the wording that it was taught"
    assert proposal["attempts"]
