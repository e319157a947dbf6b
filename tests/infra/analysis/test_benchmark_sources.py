"""Rows of the public benchmark read back, from JSON lines and through the hub's library."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.public_rows import public_row, write_rows

from envgen.errors import DataError
from envgen.mapf.benchmark import SUBSETS, load_suite
from envgen.mapf.problem import Instance, to_text
from envgen.mapf.published import BENCHMARK
from envgen.suites import Item
from infra.analysis.benchmark.sources import limited, read_source


@pytest.fixture(scope="module")
def some() -> list[Item]:
    return load_suite()[::60]


def known(instance: Instance) -> tuple:
    """What a row does not say and has to be found again."""
    return (
        instance.problem,
        instance.solution.sum_of_costs,
        instance.solution.wait_required,
        instance.solution.waits,
    )


def test_our_instances_as_public_rows_give_the_same_identities_and_costs(some: list[Item], tmp_path: Path):
    solved: list[int] = []
    read = read_source(BENCHMARK, write_rows(tmp_path / "rows.jsonl", map(public_row, some)), solved.append)
    assert [known(item.instance) for item in read] == [known(item.instance) for item in some]
    assert [item.name for item in read] == [item.name for item in some]
    assert not any("wait subset" in item.groups for item in read)
    assert solved == [len(some)]


def test_a_row_may_say_its_subset_by_the_name_of_the_config(some: list[Item], tmp_path: Path):
    rows = [
        public_row(some[0], subset="wr_050"),
        public_row(some[1], subset="benchmark_wr_075"),
        public_row(some[2]),
    ]
    assert [
        item.groups.get("wait subset")
        for item in read_source(BENCHMARK, write_rows(tmp_path / "rows.jsonl", rows))
    ] == [
        "wr_050",
        "wr_075",
        None,
    ]


def test_a_limit_takes_as_many_of_every_cell_and_keeps_the_order():
    suite = load_suite()
    few = limited(suite, 2)
    assert len(few) == 2 * 63
    chosen = {item.instance.id for item in few}
    assert len(chosen) == len(few)
    assert few == [item for item in suite if item.instance.id in chosen]
    waits = sum(item.instance.solution.wait_required for item in few)
    assert 30 < waits < 100, "neither label is preferred"
    assert {item.name for item in few} == {item.name for item in limited(suite[::-1], 2)}
    assert limited(suite, 50) == suite


WALL = "S H G\nH H H\ns F g\nAgent 0: (0,0) to (0,2)\nAgent 1: (2,0) to (2,2)"


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([], "rows.jsonl: holds no row; expected rows sample_id, num_agents, text"),
        ([{"id": "x", "size": 3}], "rows.jsonl: line 1: sample_id: Field required"),
        ([[1]], "rows.jsonl: line 1: .*dict"),
        (
            [{"sample_id": "a", "num_agents": 2, "text": WALL}],
            "rows.jsonl: line 1: 'a' has no plan to compare costs with; leave it out",
        ),
        (
            [{"sample_id": "a", "num_agents": 3, "text": WALL}],
            "rows.jsonl: line 1: num_agents is 3, but the text places 2 agents",
        ),
        (
            [{"sample_id": "a", "num_agents": 2, "text": WALL, "subset": "x" * 41}],
            "rows.jsonl: line 1: subset: String should have at most 40 characters",
        ),
        ([{"sample_id": "a", "num_agents": 2, "text": "no board"}], "rows.jsonl: line 1: no grid found"),
        (
            [{"sample_id": "a", "num_agents": 3.0, "text": WALL}],
            "num_agents: Input should be a valid integer",
        ),
        ([{"sample_id": "a", "num_agents": 3, "text": None}], "text: Input should be a valid string"),
        ([{"sample_id": 7, "num_agents": 3, "text": WALL}], "sample_id: Input should be a valid string"),
        ([{"sample_id": "x" * 201, "num_agents": 3, "text": WALL}], "sample_id: String should have at most"),
    ],
)
def test_a_row_that_is_wrong_is_named(rows: list, complaint: str, tmp_path: Path):
    with pytest.raises(DataError, match=complaint):
        read_source(BENCHMARK, write_rows(tmp_path / "rows.jsonl", rows))


@pytest.mark.parametrize("source", ["suite.csv", "a/b/c", "missing"])
def test_what_is_no_source_is_refused(source: str):
    with pytest.raises(
        DataError,
        match=(
            r"expected a .parquet data set, a .jsonl file of rows as the public data set has, or a hub id as"
            r" LARK-Lab/"
        ),
    ):
        read_source(BENCHMARK, source)


def test_a_copy_of_the_public_data_set_is_read_with_its_three_configs(
    some: list[Item], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "copy"
    folder.mkdir()
    configs = []
    for index, subset in enumerate(SUBSETS):
        rows = [public_row(some[index], text=to_text(some[index].instance.problem))]
        write_rows(folder / f"{subset}.jsonl", rows)
        configs.append(
            f"- config_name: benchmark_{subset}\n  data_files:\n  - split: test\n    path: {subset}.jsonl\n"
        )
    (folder / "README.md").write_text(f"---\nconfigs:\n{''.join(configs)}---\n")
    read = read_source(BENCHMARK, str(folder))
    assert [known(item.instance) for item in read] == [known(item.instance) for item in some[:3]]
    assert [item.groups["wait subset"] for item in read] == list(SUBSETS)


def test_a_folder_without_the_configs_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    (tmp_path / "copy").mkdir()
    with pytest.raises(
        DataError,
        match=(
            r"copy: config benchmark_wr_025 cannot be fetched \(.*check the id and the network, or save its"
            r" rows"
        ),
    ):
        read_source(BENCHMARK, str(tmp_path / "copy"))


def test_a_data_set_that_cannot_be_fetched_is_explained(tmp_path: Path):
    script = (
        "from envgen.mapf.published import BENCHMARK as ours\n"
        "from infra.analysis.benchmark.sources import read_source\n"
        "read_source(ours, ours.public)"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120
    )
    assert (
        "DataError: LARK-Lab/MAPF-FrozenLake-Benchmark: config benchmark_wr_025 cannot be fetched"
        in done.stderr
    )
