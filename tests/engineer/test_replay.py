import json
from pathlib import Path
from typing import Any

import pytest
from contexts import DEFAULT, EASIER, LATEST, SPACE, design_context, designed, env_config

from engineer.engineers.registry import resolve
from engineer.spec import EngineerSpec
from envgen.errors import ConfigError
from envgen.files import write_json

CONFIGS = (EASIER, LATEST, DEFAULT)


def dump(config: Any) -> dict:
    return config.model_dump(mode="json")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """What `replay` reads of a run of three stages."""
    stages = [{"stage": n, "proposal": {"config": dump(c)}} for n, c in enumerate(CONFIGS)]
    write_json(tmp_path / "run" / "results.json", {"curriculum": "run", "stages": stages})
    return tmp_path / "run"


def resolved(configs: Any, stages: int = 3) -> EngineerSpec:
    return resolve(EngineerSpec(name="replay", options={"configs": configs}), SPACE, stages)


def refusal(configs: Any, stages: int = 3) -> str:
    with pytest.raises(ConfigError) as refused:
        resolved(configs, stages)
    return str(refused.value)


def test_a_run_its_results_and_a_list_replay_alike(run: Path):
    specs = [resolved(str(run)), resolved(str(run / "results.json")), resolved([dump(c) for c in CONFIGS])]
    assert specs[0] == specs[1] == specs[2]
    for stage, config in enumerate(CONFIGS):
        proposal = designed(specs[0], design_context(stage))
        assert (proposal.config, proposal.rationale) == (config, f"Recorded config of stage {stage + 1}.")
        assert proposal.fallback is None


def test_a_recording_is_read_when_the_preset_is_loaded_and_never_again(run: Path):
    spec = resolved(str(run))
    (run / "results.json").unlink()
    assert spec.options == {"configs": [dump(c) for c in CONFIGS]}
    assert resolve(spec, SPACE, 3) == spec
    assert json.loads(json.dumps(spec.options)) == spec.options


def test_after_the_last_recorded_config_it_is_kept():
    proposal = designed(resolved([dump(EASIER), dump(LATEST)]))
    assert (proposal.config, proposal.rationale) == (LATEST, "The recording has ended; the config is kept.")


SHORT = {"sizes": {"3": {"data_ratio": 1, "wait_ratio": 0}, "5": {"data_ratio": 0, "wait_ratio": 0}}}


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        ([dump(EASIER)], "has 1 configs, 3 stages need 2; give a longer recording or fewer stages"),
        ([dump(EASIER), dump(env_config({3: (1, 0.3, 0)}))], "configs.1.sizes: names ['3'], the space ['3'"),
        (
            [dump(env_config({3: (0.5, 0.3, 0), 5: (0.5, 0.5, 0)}))] * 2,
            "configs.0.sizes.5.hole_ratio: 0.5 is outside of the space, 0.2 to 0.4",
        ),
        ([SHORT, SHORT], "configs.0.sizes.3.hole_ratio: is missing or unknown"),
        ([dump(EASIER), {}], "configs.1.strata: Field required"),
        ([], "configs: Tuple should have at least 1 item"),
        (3, "configs: Input should be a valid tuple"),
    ],
)
def test_a_list_that_cannot_be_replayed_is_refused_with_its_field(configs: Any, reason: str):
    assert refusal(configs).startswith("engineer.options of engineer 'replay': ")
    assert reason in refusal(configs)


PART = '{"stages": [{"proposal": {"config": {"sizes": {"3": %s}}}}]}'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("no", "Invalid JSON"),
        ("[" * 100_000, "recursion limit exceeded"),
        ("[1]", "Input should be an object (got [1])"),
        ('{"stages": []}', "stages: List should have at least 1 item"),
        ('{"stages": [1]}', "stages.0: Input should be an object (got 1)"),
        ('{"stages": [{"proposal": {}}]}', "stages.0.proposal.config: Field required"),
        (PART % '{"hole_ratio": 1}', "sizes.3: data_ratio: Field required"),
        (PART % '{"data_ratio": NaN}', "sizes.3: data_ratio: Input should be"),
    ],
)
def test_a_file_that_is_malformed_is_refused_with_file_and_field(tmp_path: Path, text: str, reason: str):
    (tmp_path / "results.json").write_text(text)
    message = refusal(str(tmp_path))
    assert f"{tmp_path / 'results.json'}: " in message
    assert reason in message


def test_a_file_that_is_missing_is_refused(tmp_path: Path):
    assert f"{tmp_path / 'nowhere'}: no such file" in refusal(str(tmp_path / "nowhere"))
    assert f"{tmp_path / 'results.json'}: no such file" in refusal(str(tmp_path))
