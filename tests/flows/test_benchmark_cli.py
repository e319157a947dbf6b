"""`envwright benchmark` as a person calls it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from envgen.benchmark import load_suite
from envgen.prompts import PromptStyle, prompt
from policy.rollouts import breakdown_of, read_rollouts


def envwright(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "flows.cli", "benchmark", *arguments]
    variables = {**os.environ, "ENVWRIGHT_RUNS": str(folder / "runs"), "COLUMNS": "200", **environment}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=240)


def rows(path: Path, count: int) -> None:
    """The first instances of the suite as rows of the public data set, with their subset."""
    lines = []
    for item in load_suite()[:count]:
        row = {"sample_id": item.name, "num_agents": item.instance.problem.num_agents, "text": prompt(item.instance.problem, PromptStyle.BOARD)}
        lines.append(json.dumps({**row, "subset": item.subset}) + "\n")
    path.write_text("".join(lines))


def test_the_help_says_what_is_answered_and_shows_an_example(tmp_path: Path):
    done = envwright(tmp_path, "--help")
    assert done.returncode == 0
    assert "3,150 instances" in done.stdout
    assert "Example: envwright benchmark tiny" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["./nowhere"], "./nowhere: no checkpoint there"),
        (["tiny", "--limit", "0"], "limit: Input should be greater than or equal to 1 (got 0)"),
        (["tiny", "--answer-tokens", "1"], "answer_tokens: Input should be greater than or equal to 8"),
        (["tiny", "--data", "rows.jsonl", "--preset", "micro"], "data 'rows.jsonl' and preset 'micro' are both given"),
        (["http://host/v1?key=abc#m"], "expected an address without user, password, query or fragment"),
        (["tiny", "--backend", "sglang"], "backend: Input should be 'transformers' or 'vllm' (got 'sglang')"),
        (["tiny", "--max-model-len", "4096"], "max_model_len: 4096 is read by the backend vllm only"),
        (["http://localhost:1/v1#m", "--backend", "vllm"], "backend: is read where a model is run here"),
        (["tiny", "--style", "haiku"], "Invalid value for '--style'"),
    ],
)
def test_bad_input_is_explained_and_nothing_written(tmp_path: Path, arguments: list[str], complaint: str):
    done = envwright(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_tiny_policy_answers_rows_of_the_public_data_set(tmp_path: Path):
    rows(tmp_path / "rows.jsonl", 6)
    done = envwright(tmp_path, "tiny", "--data", "rows.jsonl", "--name", "mine")
    assert done.returncode == 0, done.stderr
    assert "tiny on rows.jsonl: compact prompts, answers of up to 128 tokens" in done.stdout
    solved = breakdown_of(read_rollouts(tmp_path / "runs" / "benchmarks" / "mine" / "rollouts.parquet")).overall
    assert solved.n == 6
    assert solved.valid > 0, "the base policy was taught three agents"
    assert f"{100 * solved.valid_rate.value:.1f} [" in done.stdout
    assert "below the line: published, on the authors' instances, not ours" in done.stdout
    folder = tmp_path / "runs" / "benchmarks" / "mine"
    assert {"benchmark.json", "benchmark.png", "breakdown.json", "rollouts.parquet", "spec.json"} <= {path.name for path in folder.iterdir()}
