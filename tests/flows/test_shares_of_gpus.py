"""Curricula of a comparison that run side by side each see GPUs of their own."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from envgen.errors import ConfigError
from flows.compare import Curricula, compare, gpus_needed
from flows.compare_parameters import ComparisonOptions
from infra.config.preset import load_preset
from policy.devices import VISIBLE, Shares, visible_devices


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
    ("devices", "jobs", "needed", "blocks", "shared"),
    [
        ("0123", 4, 1, ["0", "1", "2", "3"], False),
        ("0123", 2, 1, ["0,1", "2,3"], False),
        ("01234", 2, 1, ["0,1", "2,3"], False),
        ("0123", 2, 2, ["0,1", "2,3"], False),
        ("01", 3, 1, ["0", "1"], True),
        ("01234", 3, 2, ["0,1", "2,3"], True),
        ("7", 2, 1, ["7"], True),
        ("0123", 1, 2, [], False),
        ("", 4, 2, [], False),
    ],
)
def test_gpus_are_dealt_out_in_equal_blocks(devices: str, jobs: int, needed: int, blocks: list, shared: bool):
    shares = Shares(list(devices), jobs, needed)
    assert (shares.blocks, shares.shared) == (blocks, shared)


def test_a_block_comes_back_and_the_one_used_least_is_next():
    shares = Shares(["4", "5"], 3)
    with shares.lent() as first:
        with shares.lent() as second, shares.lent() as third:
            assert [one[VISIBLE] for one in (first, second, third)] == ["4", "5", "4"]
        with shares.lent() as next_one:
            assert next_one == {VISIBLE: "5"}
    with pytest.raises(RuntimeError), shares.lent():
        raise RuntimeError("the curriculum failed")
    with shares.lent() as again:
        assert again == {VISIBLE: "4"}


def test_too_few_for_one_curriculum_are_refused_and_nothing_is_written(tmp_path: Path, monkeypatch):
    monkeypatch.setenv(VISIBLE, "0,GPU-b")
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path))
    options = ComparisonOptions(settings={"engine.backend": "vllm", "engine.data_parallel": 3})
    with pytest.raises(
        ConfigError, match=r"needs 3 GPUs .*2 can be seen \(0,GPU-b\); lower them, or set CUDA_"
    ):
        compare.fn("micro", "", options, 2)
    assert not list(tmp_path.iterdir())


def test_what_a_curriculum_needs_is_what_trains_or_what_answers():
    preset = load_preset("micro")
    assert gpus_needed(preset) == 1
    assert gpus_needed(load_preset("qwen3-4b-8gpu")) == 8
    engine = preset.engine.model_copy(update={"data_parallel": 3})
    assert gpus_needed(preset.model_copy(update={"engine": engine})) == 3


@pytest.mark.parametrize(
    ("visible", "jobs", "expected"),
    [
        ("3,GPU-b,1,0", 2, ["3,GPU-b", "1,0"]),
        ("0,1", 3, ["0", "1", "0"]),
        ("", 2, [None, None]),
        ("0,1", 1, [None]),
    ],
    ids=["other GPUs", "more curricula than GPUs", "no GPU", "one job"],
)
def test_curricula_side_by_side_are_told_their_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str, jobs: int, expected: list[str | None]
):
    def start(module: str, arguments: list[str], variables: dict[str, str], **streams: object) -> None:
        devices.append(variables.get(VISIBLE))

    devices: list[str | None] = []
    monkeypatch.setenv(VISIBLE, visible)
    monkeypatch.setattr("flows.compare.start_child", start)
    monkeypatch.setattr("flows.compare.stop_child", lambda *_: None)
    curricula = Curricula(tmp_path, None, Shares.visible(jobs, 1), {})
    # The address is only handed on; nobody has to listen there.
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}), ExitStack() as running:
        for number in range(jobs):
            running.enter_context(curricula.process(f"run-{number}", "id"))
    assert devices == expected


def test_gpus_that_are_shared_are_named_with_the_remedy(monkeypatch, caplog):
    monkeypatch.setenv(VISIBLE, "0,1")
    with caplog.at_level("INFO", logger="envwright"):
        Shares.visible(3, 1)
    assert "3 curricula at a time share the GPUs 0 and 1" in caplog.text
    assert "lower --jobs to 2" in caplog.text
