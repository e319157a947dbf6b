"""Rows of the public benchmark through the hub's library, and a part of the suite."""

import pytest
from support.public_rows import public_row, write_rows

from envgen.errors import DataError
from envgen.mapf.benchmark import BENCHMARK, SUBSETS, load_suite
from infra.benchmark.sources import limited, read_source


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


@pytest.mark.parametrize("source", ["suite.csv", "rows.jsonl", "a/b/c", "missing"])
def test_what_is_no_source_is_refused(source: str):
    with pytest.raises(DataError, match=r"expected a .parquet data set, or a hub id as LARK-Lab/"):
        read_source(BENCHMARK, source)


def test_a_copy_of_the_public_data_set_is_read_with_its_three_configs(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    folder, some = tmp_path / "copy", load_suite()[::60]
    folder.mkdir()
    configs = ""
    for index, subset in enumerate(SUBSETS):
        write_rows(folder / f"{subset}.jsonl", [public_row(some[index])])
        configs += (
            f"- config_name: benchmark_{subset}\n  data_files: [{{split: test, path: {subset}.jsonl}}]\n"
        )
    (folder / "README.md").write_text(f"---\nconfigs:\n{configs}---\n")
    read = read_source(BENCHMARK, str(folder))
    assert [item.instance.problem for item in read] == [item.instance.problem for item in some[:3]]
    assert [item.groups["wait subset"] for item in read] == list(SUBSETS)


@pytest.mark.parametrize("source", ["copy", BENCHMARK.public])
def test_a_data_set_that_cannot_be_fetched_is_explained(source: str, tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "copy").mkdir()
    complaint = rf"{source}: config benchmark_wr_025 cannot be fetched \(.*check the id and the network, or"
    with pytest.raises(DataError, match=complaint):
        read_source(BENCHMARK, source)
