"""Curricula of a comparison that run side by side each see GPUs of their own."""

import os
from pathlib import Path

import pytest

from envgen.errors import ChildError, ConfigError
from flows.compare import Curricula, compare, gpus_needed
from flows.parameters import ComparisonOptions
from infra.config.preset import load_preset
from policy.devices import VISIBLE, Shares, visible_devices
from tasks.run import run_each

NOTES = """
import os, sys, time
from pathlib import Path
if "prefect.flow_engine" in sys.orig_argv:
    name, folder = os.environ["PREFECT__FLOW_RUN_ID"], Path(os.environ["NOTES"])
    (folder / name).write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "not set"))
    while len(list(folder.iterdir())) < int(os.environ["AT_ONCE"]):
        time.sleep(0.01)
    os._exit(name.startswith("fails"))
"""


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


@pytest.fixture
def children(tmp_path: Path, monkeypatch):
    """Makes children that note which GPUs they see, and end when so many have begun."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "sitecustomize.py").write_text(NOTES)
    (tmp_path / "notes").mkdir()
    paths = [str(tmp_path / "path"), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))

    def run(visible: str | None, jobs: int, names: list[str], at_once: int) -> dict[str, str]:
        monkeypatch.setenv("AT_ONCE", str(at_once))
        monkeypatch.delenv(VISIBLE, raising=False)
        if visible is not None:
            monkeypatch.setenv(VISIBLE, visible)
        curricula = Curricula(tmp_path / "c", None, Shares.visible(jobs, 1), {})
        errors = {}

        def start(name: str) -> None:
            with curricula.process(name, name, name) as process:
                if process.wait():
                    raise ChildError(name)

        def ended(name: str, error: BaseException | None, stands: str) -> None:
            errors[name] = error

        run_each(names, jobs, start, ended, lambda: None)
        failed = {name for name, error in errors.items() if isinstance(error, ChildError)}
        assert failed == {name for name in names if name.startswith("fails")}
        return {path.name: path.read_text() for path in (tmp_path / "notes").iterdir()}

    # The address is only handed on; nobody has to listen there.
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        yield run


def test_children_side_by_side_see_other_gpus(children):
    seen = children("3,GPU-b,1,0", 2, ["a", "b"], 2)
    assert sorted(seen.values()) == ["1,0", "3,GPU-b"]


def test_a_child_that_failed_gives_its_gpu_to_the_next(children):
    seen = children("5,6", 2, ["fails-a", "b", "c", "fails-d", "e"], 1)
    assert len(seen) == 5
    assert set(seen.values()) <= {"5", "6"}


def test_more_children_than_gpus_share_and_it_is_said(children, caplog):
    with caplog.at_level("INFO", logger="envwright"):
        seen = children("0,1", 3, ["a", "b", "c"], 3)
    assert sorted(seen.values()) in (["0", "0", "1"], ["0", "1", "1"])
    assert "3 curricula at a time share the GPUs 0 and 1" in caplog.text
    assert "lower --jobs to 2" in caplog.text


@pytest.mark.parametrize(("visible", "jobs", "expected"), [("", 2, ""), ("0,1", 1, "0,1")])
def test_without_gpus_or_for_one_job_nothing_is_set(children, visible: str, jobs: int, expected: str):
    assert children(visible, jobs, ["a"], 1) == {"a": expected}


@pytest.mark.skipif(any(Path("/dev").glob("nvidia[0-9]*")), reason="this machine has GPUs")
def test_on_a_machine_without_gpus_the_variable_stays_unset(children):
    assert children(None, 2, ["a", "b"], 2) == {"a": "not set", "b": "not set"}
