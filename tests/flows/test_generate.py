"""`envwright mapf generate`: a data set from an environment config."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from envgen.dataset import read_dataset
from envgen.mapf import sampler

CONFIG = """sizes:
  3: {data_ratio: 0.4, hole_ratio: 0.25, wait_ratio: 0.5}
  4: {data_ratio: 0.6, hole_ratio: 0.2, wait_ratio: 0.25}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    return path


def test_a_data_set_has_the_counts_of_its_config(envwright, tmp_path: Path, config: Path):
    done = envwright("mapf", "generate", config, "--count", "20", "--agents", "3", "-o", "data.parquet")
    assert done.code == 0, done.err
    assert "20 instances -> data.parquet" in done.out
    instances = read_dataset(tmp_path / "data.parquet")
    assert sum(instance.problem.size == 3 for instance in instances) == 8
    shapes = {(i.problem.size, len(i.problem.holes), i.problem.num_agents) for i in instances}
    assert shapes == {(3, 2, 3), (4, 3, 3)}
    assert len({i.problem.id for i in instances}) == 20
    table = pq.read_table(tmp_path / "data.parquet")
    assert all("Plan paths for 3 agents" in text for text in table["prompt"].to_pylist())
    origin = json.loads(table.schema.metadata[b"envwright.origin"])
    assert (origin["seed"], origin["agents"], list(origin["config"]["sizes"])) == (0, 3, ["3", "4"])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("sizes: {3: [", "not readable as YAML"),
        (CONFIG + "seed: 3\n", "seed: Extra inputs are not permitted"),
        (CONFIG.replace("0.25,", "0.75,"), "sizes.3.hole_ratio: 0.75 is outside of the space, 0 to 0.5"),
        (CONFIG.replace("0.4", "2"), "sizes.3: data_ratio: Input should be less than or equal to 1"),
        (CONFIG.replace("  3:", "  2:"), "map_sizes.0: Input should be greater than or equal to 3 (got '2')"),
        (CONFIG.replace("  4:", "  11:"), "map_sizes.1: Input should be less than or equal to 10"),
        (CONFIG.replace("  4:", "  four:"), "map_sizes.1: Input should be a valid integer"),
        (CONFIG.replace("wait_ratio: 0.5", "colour: 1"), "sizes.3.colour: is missing or unknown"),
    ],
)
def test_a_bad_config_is_refused_and_nothing_is_written(refused, tmp_path, config, text, complaint):
    config.write_text(text)
    command = ["mapf", "generate", "config.yaml", "--count", "10", "-o", "data.parquet"]
    refused(command, "error: config.yaml: ", complaint)
    assert [p.name for p in tmp_path.iterdir()] == ["config.yaml"]


def test_what_cannot_be_drawn_is_refused_with_a_way_out(refused, tmp_path, config: Path, monkeypatch):
    monkeypatch.setattr(sampler, "FRUITLESS_DRAWS", 20_000)
    config.write_text("sizes: {3: {data_ratio: 1, hole_ratio: 0.5, wait_ratio: 0}}")
    command = ["mapf", "generate", "config.yaml", "-o", "data.parquet"]
    for options, *complaints in [
        ("--count 10 --agents 5", "leaves 5 free cells for 5 agents; use hole_ratio at most 0.33"),
        ("--count 9000", "map size 3 with 2 agents and 4 holes: only", "ask for fewer or change hole_ratio"),
        ("--count 0", "--count"),
        ("--count 10000001", "--count"),
        ("--count 10 --agents 1", "--agents"),
        ("--count 10 --agents 6", "--agents"),
        ("--count 10 --style prose", "--style"),
    ]:
        refused([*command, *options.split()], *complaints)
    command = ["mapf", "generate", ".", "--count", "10", "-o"]
    refused([*command, "data.parquet"], "error: .: not readable as YAML")
    refused([*command, "o.csv"], "error: -o o.csv: generate writes Parquet; give a name that ends in .parq")
    assert [p.name for p in tmp_path.iterdir()] == ["config.yaml"]
