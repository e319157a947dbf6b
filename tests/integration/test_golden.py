"""Golden run: instances, prompts, breakdowns, proposals and rates of two small runs, and solved boards.

`golden.json` was recorded at commit e37d396. A change of these values changes what every user's seed means.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.envwright_command import envwright

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())
CONFIG = """\
sizes:
  3: {data_ratio: 0.2, hole_ratio: 0.2, wait_ratio: 0.5}
  5: {data_ratio: 0.5, hole_ratio: 0.3, wait_ratio: 0.25}
  8: {data_ratio: 0.3, hole_ratio: 0.4, wait_ratio: 0.75}
"""


def digest(value: object) -> str:
    """Return the SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def instances(path: Path) -> dict[str, Any]:
    """Return ids and prompts of a data set: their number, the first prompt, and a digest of all."""
    table = pq.read_table(path, columns=["id", "prompt"])
    rows = list(zip(table["id"].to_pylist(), table["prompt"].to_pylist(), strict=True))
    return {"count": len(rows), "first": rows[0], "digest": digest(rows)}


def counts(breakdown: dict[str, Any]) -> dict[str, Any]:
    """Return the counted outcomes of each stratum."""
    fields = ("n", "valid", "optimal", "failures", "labels")
    return {
        name: {field: part[field] for field in fields if field in part}
        for name, part in breakdown["strata"].items()
    }


def summary(run: Path) -> dict[str, Any]:
    """Return what a run drew, measured and proposed."""

    def read(name: str) -> dict[str, Any]:
        return json.loads((run / name).read_text())

    return {
        "validation": instances(run / "validation.parquet"),
        "train": [instances(run / f"stage-0{stage}/train.parquet") for stage in (0, 1)],
        "breakdowns": [
            counts(read(f"{folder}/breakdown.json")) for folder in ("start", "stage-00", "stage-01")
        ],
        "proposals": [
            {key: proposal[key] for key in ("prompt", "rationale", "config")}
            for proposal in (read(f"stage-0{stage}/proposal.json") for stage in (0, 1))
        ],
    }


def random_boards(count: int = 400) -> list[dict[str, Any]]:
    """Return problem lines of random boards with 2 to 5 agents, a third of the cells holes at most."""
    rng = np.random.default_rng(20_261_127)
    lines = []
    for number in range(count):
        size, agents = int(rng.integers(3, 8)), int(rng.integers(2, 5))
        holes = rng.integers(0, max(1, min(size * size // 3, size * size - 2 * agents) + 1))
        cells = [[int(cell) // size, int(cell) % size] for cell in rng.permutation(size * size)]
        spots = cells[holes:]
        pairs = [
            {"start": spots[agent], "goal": spots[int(rng.integers(0, 2)) * agents + (agent + 1) % agents]}
            for agent in range(agents)
        ]
        lines.append({"id": str(number), "size": size, "holes": cells[:holes], "agents": pairs})
    unique_goals = [
        line for line in lines if len({tuple(pair["goal"]) for pair in line["agents"]}) == len(line["agents"])
    ]
    return unique_goals


def drawn_and_solved(folder: Path) -> dict[str, Any]:
    """Return what `generate` draws and what `solve` says of fixed boards."""
    (folder / "config.yaml").write_text(CONFIG)
    envwright(
        folder, "generate", "config.yaml", "--count", 60, "--agents", 3, "--seed", 5, "-o", "drawn.parquet"
    )
    (folder / "problems.jsonl").write_text("".join(json.dumps(line) + "\n" for line in random_boards()))
    envwright(folder, "solve", "problems.jsonl", "-o", "solutions.jsonl")
    solutions = [json.loads(line) for line in (folder / "solutions.jsonl").read_text().splitlines()]
    fields = ("id", "solvable", "sum_of_costs", "wait_required")
    return {
        "generate": instances(folder / "drawn.parquet"),
        "solve": [[solution.get(field) for field in fields] for solution in solutions],
    }


def test_generate_and_solve_are_those_of_the_golden_run(tmp_path: Path):
    assert json.loads(json.dumps(drawn_and_solved(tmp_path))) == GOLDEN["mapf"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("preset", ["micro", "micro-sums"])
def test_a_run_is_the_golden_run(server: str, preset: str, tmp_path: Path):
    envwright(tmp_path, "run", preset, PREFECT_API_URL=server)
    [run] = (tmp_path / "runs").glob(f"{preset}-*")
    assert json.loads(json.dumps(summary(run))) == GOLDEN[preset]
