from pathlib import Path

import pytest
from support.boards import sample_boards

from envgen import registry
from envgen.config import EnvConfig
from envgen.mapf import benchmark, environment
from envgen.mapf.benchmark import suite_identities
from envgen.mapf.problem import Instance
from infra.config.preset import load_preset
from infra.runs import files
from infra.runs.run import Run
from infra.runs.steps import StepRecord, read_records
from tasks.data import generate, make_validation

TWO_AGENTS = "27d9526fe56f724122be4a2976f9093b6248c1ce84d7662ae10f8f134dda8b0f"
"""Key of the validation set of the preset micro."""


def drawn(run: Run) -> StepRecord:
    make_validation.fn(run)
    [record] = read_records(run.directory)
    return record


CROWDED = EnvConfig.model_validate({"sizes": {"3": {"data_ratio": 1, "hole_ratio": 0.5, "wait_ratio": 0.4}}})
"""Of the 867 distinct boards with three agents, 30 are in the benchmark suite."""


def crowded(folder: Path, agents: int) -> Run:
    options = {"agents": agents, "map_sizes": [3], "max_hole_ratio": 0.5}
    config = {"default_config": CROWDED.model_dump(mode="json"), "instances": 450}
    validation = {"validation.grid.hole_ratio": [0.5], "validation.instances": 60}
    settings = {"environment.options": options, **config, **validation}
    return Run(directory=folder, chosen=load_preset("micro", settings))


def identities(instances: list[Instance]) -> set[str]:
    return {instance.problem.id for instance in instances}


def test_neither_validation_nor_training_data_hold_an_instance_of_the_benchmark_suite(tmp_path: Path):
    run = crowded(tmp_path, 3)
    generate.fn(run, 0, CROWDED, make_validation.fn(run))
    suite = suite_identities(3)
    assert len(identities(sample_boards(CROWDED, 700, agents=3, seed=0)) & suite) > 10, (
        "they would, if the suite were not held out"
    )
    validation, train = (
        identities(found) for found in (run.read(files.VALIDATION), run.read(files.TRAIN_DATA, 0))
    )
    assert not validation & train
    assert not (validation | train) & suite


def test_data_of_two_agents_does_not_depend_on_the_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    expected = drawn(Run(directory=tmp_path / "with", chosen=load_preset("micro")))
    monkeypatch.setattr(benchmark, "SUITE", tmp_path / "missing.parquet")
    benchmark.suite_identities.cache_clear()
    registry._load.cache_clear()
    without = drawn(Run(directory=tmp_path / "without", chosen=load_preset("micro")))
    assert (without.key, without.outputs) == (expected.key, expected.outputs)
    assert without.key == TWO_AGENTS, "the key of a step whose output is the same stays the same"


def test_the_suite_is_part_of_the_key_of_more_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    keys = []
    for digest in ("a", "b"):
        monkeypatch.setattr(environment, "SUITE_SHA256", digest)
        registry._load.cache_clear()
        keys.append(drawn(crowded(tmp_path / digest, 3)).key)
    assert keys[0] != keys[1]
