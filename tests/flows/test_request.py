"""How much `run` and `compare` ask for: said before anything starts, with a bound."""

import pytest
from support.presets import EVERY

from envgen.errors import ChildError
from flows.commands.request import announce, work_of, work_of_comparison
from infra.analysis.spec import plan
from infra.config.preset import load_preset

MUCH = "--set instances=1000000 --stages 100"


@pytest.mark.parametrize("command", [f"run tiny {MUCH}", f"compare tiny --engineers random {MUCH}"])
def test_what_takes_very_long_is_refused_unless_it_is_meant(envwright, tmp_path, monkeypatch, command: str):
    def stop() -> None:
        raise ChildError("got as far as the start")

    asked = envwright(*command.split())
    assert asked.code == 2, asked
    assert "trained on; " in asked.out
    assert " hours at 10,000 tokens a second" in asked.out
    assert "takes long; add --yes if it is meant, or ask for fewer stages" in asked.err
    assert not (tmp_path / "runs").exists()
    monkeypatch.setattr("flows.commands.run_cli.start_orchestrator", stop)
    meant = envwright(*command.split(), "--yes")
    assert (meant.code, meant.err) == (1, "error: got as far as the start\n")


@pytest.mark.parametrize("instances", [0, 1_000_001, 10**18])
def test_a_stage_has_a_million_instances_at_most(refused, instances: int):
    refused(["run", "micro", "--set", f"instances={instances}"], "instances: Input should be")


@pytest.mark.parametrize("name", EVERY)
def test_no_shipped_preset_needs_a_yes(name: str):
    preset = load_preset(name)
    announce(work_of(preset, preset.stages), yes=False)


def test_a_shared_stage_0_is_counted_once():
    spec = plan("micro", ["random", "fixed"], [0, 1])
    assert work_of_comparison(spec) == work_of(load_preset("micro"), 1 + 4, runs=1)


def test_work_is_counted_from_the_preset():
    preset = load_preset("qwen3-4b")
    evaluated, stage = work_of(preset, 0), work_of(preset, 1, runs=0)
    assert (evaluated.completions, evaluated.generated, evaluated.trained) == (576, 576 * 4096, 0)
    assert (stage.completions, stage.generated) == (64_000 + 576, (64_000 + 576) * 4096)
    assert work_of(preset, 3).generated == 3 * stage.generated + 576 * 4096
