"""What a warm start never teaches, and which one it continues."""

import os
from pathlib import Path

import pytest

from envgen.errors import ChildError, ConfigError
from envgen.files import write_json
from envgen.mapf.benchmark import suite_identities
from infra.config.preset import TUNING_SEED, load_preset
from policy.warm_start import WarmStartRecipe, WarmStartSpec
from tasks.warm_start import held_out, warm_start


def test_no_board_of_a_validation_tuning_or_test_set_or_of_the_benchmark_suite_is_taught():
    tested = load_preset("tiny", {"test.instances": 2})
    unseen = held_out(tested)
    test = tested.test.draw(tested.task, tested.validation, frozenset())
    assert {instance.id for instance in test} <= unseen
    for settings in ({}, {"validation.seed": TUNING_SEED}):
        preset = load_preset("tiny", settings)
        judged = {instance.problem.id for instance in preset.validation.draw(preset.task)}
        assert judged
        assert judged <= unseen
    assert suite_identities(2) <= unseen
    assert not suite_identities(3) & unseen, "only as many agents as are taught"


def test_only_the_same_warm_start_is_continued_wherever_it_lies(tmp_path, monkeypatch):
    def child(module: str, spec: WarmStartSpec, path: Path, *_: object, **more: object) -> None:
        write_json(path, spec)
        raise ChildError("killed")

    monkeypatch.setattr("tasks.warm_start.run_child", child)
    preset, output = load_preset("micro-sums"), tmp_path / "warm"
    for folder in (output, Path(os.path.relpath(output))):
        with pytest.raises(ChildError, match="killed"):
            warm_start(folder, preset, WarmStartRecipe())
    with pytest.raises(ConfigError, match="was begun with another preset, model or --set"):
        warm_start(output, preset, WarmStartRecipe(steps=7))
    monkeypatch.setattr(type(preset.task), "reference", lambda self, instance: "")
    with pytest.raises(ConfigError, match="environment: sums has no reference answer to 'What is"):
        warm_start(tmp_path / "other", preset, WarmStartRecipe())
