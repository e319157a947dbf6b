"""`envwright benchmark` as a person calls it."""

import json
from pathlib import Path

import pytest

from envgen.dataset import USUAL, write_dataset
from envgen.mapf.benchmark import load_suite
from envgen.mapf.prompts import PromptStyle
from policy.rollouts import breakdown_of, read_rollouts


@pytest.mark.slow
def test_the_tiny_policy_answers_a_data_set(envwright, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("flows.commands.benchmark_cli.show_log", lambda: None)  # its handler would stay
    instances = [item.instance for item in load_suite()[:6]]
    write_dataset(tmp_path / "few.parquet", instances, PromptStyle.BOARD, {})
    command = ("benchmark", "tiny", "--data", "few.parquet")
    printed = envwright(*command).out
    [folder] = (tmp_path / "runs" / "benchmarks").glob("tiny-few-*")
    assert "tiny on few.parquet: compact prompts, answers of up to 128 tokens" in printed
    rollouts = read_rollouts(folder / "rollouts.parquet")
    assert all(rollout.completion.startswith("Agent 0: (") for rollout in rollouts)
    solved = breakdown_of(USUAL.load(), rollouts).overall
    assert solved.n == 6
    assert solved.valid > 0, "the base policy was taught three agents"
    assert f"{100 * solved.valid_rate.value:.1f} [" in printed
    assert "below the line: published, on the authors' instances, not ours" in printed
    again = json.loads(envwright(*command, "--json").out)
    assert again == json.loads((folder / "benchmark.json").read_text())
    assert (folder / "breakdown.json").is_file()
