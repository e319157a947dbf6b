"""Curricula of a comparison that run side by side each see GPUs of their own."""

from collections import deque
from contextlib import ExitStack
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from envgen.errors import ConfigError
from flows.compare import Curricula, compare, gpus_needed
from flows.parameters import ComparisonOptions
from infra.config.preset import load_preset
from policy.devices import VISIBLE, device_blocks, visible_devices


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ("2,0", ["2", "0"]),
        ("GPU-8932f937-d72c , MIG-1a2b,3", ["GPU-8932f937-d72c", "MIG-1a2b", "3"]),
        ("0,-1,2", ["0"]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
    ],
)
def test_what_can_be_seen_is_what_cuda_would_see(given: str, seen: list[str], monkeypatch):
    monkeypatch.setenv(VISIBLE, given)
    assert visible_devices() == seen


@pytest.mark.parametrize(
    ("devices", "jobs", "needed", "blocks"),
    [
        ("0,1,2,3", 4, 1, ["0", "1", "2", "3"]),
        ("0,1,2,3", 2, 1, ["0,1", "2,3"]),
        ("0,1,2,3,4", 2, 1, ["0,1", "2,3"]),
        ("0,1,2,3", 2, 2, ["0,1", "2,3"]),
        ("0,1", 3, 1, ["0", "1", "0"]),
        ("0,1,2,3,4", 3, 2, ["0,1", "2,3", "0,1"]),
        ("7", 2, 1, ["7", "7"]),
        ("0,1,2,3", 1, 2, []),
        ("", 4, 2, []),
    ],
)
def test_gpus_are_dealt_out_and_shared_ones_named(devices, jobs, needed, blocks, monkeypatch, caplog):
    monkeypatch.setenv(VISIBLE, devices)
    assert device_blocks(jobs, needed) == blocks
    shared = f"{jobs} curricula at a time share the GPUs {' and '.join(dict.fromkeys(blocks))}"
    assert (shared in caplog.text) == (len(set(blocks)) < len(blocks))
    assert ("lower --jobs to 2" in caplog.text) == (jobs == 3)


def test_too_few_for_one_curriculum_are_refused_and_nothing_is_written(tmp_path: Path, monkeypatch):
    monkeypatch.setenv(VISIBLE, "0,GPU-b")
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path))
    options = ComparisonOptions(settings={"engine.backend": "vllm", "engine.data_parallel": 3})
    with pytest.raises(ConfigError, match=r"needs 3 GPUs .*2 can be seen \(0,GPU-b\); lower them, or set"):
        compare.fn("micro", "", options, 2)
    assert not list(tmp_path.iterdir())


def test_a_vllm_server_has_the_weights_of_one_curriculum_at_a_time(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path))
    with pytest.raises(ConfigError, match="--jobs: one curriculum at a time can train with a vLLM server"):
        compare.fn("qwen3-4b-2plus6", "", ComparisonOptions(), 2)
    assert not list(tmp_path.iterdir())


def test_what_a_curriculum_needs_is_what_trains_or_what_answers():
    preset = load_preset("micro")
    assert gpus_needed(preset) == 1
    assert gpus_needed(load_preset("qwen3-4b-8gpu")) == 8
    engine = preset.engine.model_copy(update={"data_parallel": 3})
    assert gpus_needed(preset.model_copy(update={"engine": engine})) == 3


@pytest.mark.parametrize(("visible", "expected"), [("0,1", ["0", "1", "0"]), ("", [None] * 3)])
def test_curricula_are_told_their_gpus_and_give_them_back(tmp_path, monkeypatch, visible, expected):
    def start(module: str, arguments: list[str], variables: dict[str, str], **streams: object) -> None:
        devices.append(variables.get(VISIBLE))

    devices: list[str | None] = []
    monkeypatch.setenv(VISIBLE, visible)
    monkeypatch.setattr("flows.compare.start_child", start)
    monkeypatch.setattr("flows.compare.stop_child", lambda *_: None)
    curricula = Curricula(tmp_path, None, deque(device_blocks(3, 1)), {})
    # The address is only handed on; nobody has to listen there.
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}), ExitStack() as running:
        for number in range(3):
            running.enter_context(curricula.process(f"run-{number}", "id"))
        assert not curricula.blocks
    assert devices == expected
    assert sorted(curricula.blocks) == sorted(filter(None, expected))
