"""`envwright benchmark` as a person calls it."""

import json
from pathlib import Path

import pytest
from support.envwright_command import envwright
from support.public_rows import public_row, write_rows

from envgen.dataset import USUAL
from envgen.mapf.benchmark import load_suite
from policy.rollouts import breakdown_of, read_rollouts


@pytest.mark.slow
def test_the_tiny_policy_answers_rows_of_the_public_data_set(tmp_path: Path, server: str):
    write_rows(
        tmp_path / "rows.jsonl",
        [public_row(item, subset=item.groups["wait subset"]) for item in load_suite()[:6]],
    )
    command = ("benchmark", "tiny", "--data", "rows.jsonl", "--name", "mine")
    printed = envwright(tmp_path, *command, PREFECT_API_URL=server).stdout
    assert "tiny on rows.jsonl: compact prompts, answers of up to 128 tokens" in printed
    solved = breakdown_of(
        USUAL.load(), read_rollouts(tmp_path / "runs" / "benchmarks" / "mine" / "rollouts.parquet")
    ).overall
    assert solved.n == 6
    assert solved.valid > 0, "the base policy was taught three agents"
    assert f"{100 * solved.valid_rate.value:.1f} [" in printed
    assert "below the line: published, on the authors' instances, not ours" in printed
    folder = tmp_path / "runs" / "benchmarks" / "mine"
    again = envwright(tmp_path, *command, "--json", PREFECT_API_URL=server).stdout
    assert json.loads(again) == json.loads((folder / "benchmark.json").read_text())
    assert {"benchmark.json", "breakdown.json", "rollouts.parquet", "spec.json"} <= {
        path.name for path in folder.iterdir()
    }
