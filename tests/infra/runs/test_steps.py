import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel

from envgen.errors import RunDirectoryError
from envgen.files import file_digest
from infra.runs import steps
from infra.runs.steps import StepRecord, policy_identity, run_step, step_key

OUTPUTS = ("config.json", "checkpoint")


def write_outputs(directory: Path, text: str = "content") -> None:
    (directory / "config.json").write_text(text)
    (directory / "checkpoint" / "deep").mkdir(parents=True, exist_ok=True)
    (directory / "checkpoint" / "deep" / "weights").write_bytes(b"\x00\x01")


def step(directory: Path, body: Callable[[], None] | None = None, **decides: object) -> StepRecord:
    return run_step(
        directory, "generate", {"seed": 0, **decides}, OUTPUTS, body or (lambda: write_outputs(directory))
    )


def test_a_step_runs_once(tmp_path: Path):
    first = step(tmp_path)
    again = step(tmp_path, lambda: 1 / 0)
    assert (first.reused, again.reused) == (False, True)
    assert again == first.model_copy(update={"reused": True})
    assert json.loads((tmp_path / ".steps" / "generate.json").read_text())["reused"] is False
    assert first.outputs == {name: file_digest(tmp_path / name) for name in OUTPUTS}


def test_what_a_body_keeps_outlives_it_until_the_record_is_there(tmp_path, monkeypatch):
    kept = tmp_path / "kept"

    def run() -> StepRecord:
        def body() -> None:
            write_outputs(tmp_path)
            kept.touch()

        return run_step(tmp_path, "generate", {}, OUTPUTS, body, unfinished=kept.name)

    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(steps, "write_json", lambda *_: 1 / 0)
        run()
    assert kept.exists()
    run()
    assert not kept.exists()
    kept.touch()  # killed between record and removal
    assert run().reused
    assert not kept.exists()


@pytest.mark.parametrize("name", ["config.json", "checkpoint/deep/weights", "checkpoint/stray"])
@pytest.mark.parametrize("content", [b"altered", None])
def test_a_step_runs_again_when_an_output_is_not_as_it_was(tmp_path: Path, name: str, content: bytes | None):
    first = step(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    stray = name.endswith("stray")
    again = step(tmp_path)
    assert again.reused == (stray and content is None)
    assert again.outputs == first.outputs or stray


def test_a_step_runs_again_when_what_decides_it_changes(tmp_path: Path):
    first = step(tmp_path)
    second = step(tmp_path, seed=1)
    assert first.key != second.key
    assert not second.reused
    assert not step(tmp_path).reused, "only the last key is kept"


MORE = '{"step": "generate", "key": "x", "outputs": {}, "seconds": 1, "more": 2}'


@pytest.mark.parametrize("record", ["", "{}", "null", '{"step": "generate"', MORE])
def test_a_damaged_record_counts_as_not_done(tmp_path: Path, record: str):
    step(tmp_path)
    (tmp_path / ".steps" / "generate.json").write_text(record)
    assert not step(tmp_path).reused


def test_a_step_whose_body_raises_or_breaks_its_promise_is_not_recorded(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        step(tmp_path, lambda: None)
    assert not step(tmp_path).reused
    with pytest.raises(ZeroDivisionError):
        step(tmp_path, lambda: write_outputs(tmp_path) or 1 / 0, seed=1)
    assert not (tmp_path / ".steps" / "generate.json").exists()
    assert not step(tmp_path).reused


class Decided(BaseModel):
    a: int
    path: Path


def test_a_key_depends_on_what_decides_it_and_not_on_its_order():
    assert step_key("train", {"a": 1, "b": [1, 2]}) == step_key("train", {"b": (1, 2), "a": 1})
    plain = step_key("train", {"m": {"a": 1, "path": "x"}})
    assert step_key("train", {"m": Decided(a=1, path=Path("x"))}) == plain
    values = (1, 2, "1", None, [1])
    assert len({step_key(name, {"a": a}) for name in ("train", "evaluate") for a in values}) == 10
    with pytest.raises(KeyError):
        step_key("unknown", {})
    with pytest.raises(ValueError, match="not JSON compliant"):
        step_key("train", {"a": float("nan")})


def test_a_policy_that_is_not_as_its_step_recorded_it_is_refused(tmp_path: Path):
    weights = tmp_path / "checkpoint" / "model.safetensors"

    def train() -> None:
        weights.parent.mkdir()
        weights.write_bytes(b"weights")

    record = run_step(tmp_path, "train", {}, ("checkpoint",), train)
    assert policy_identity(str(weights.parent)) == record.outputs["checkpoint"]
    weights.write_bytes(b"weighty")
    with pytest.raises(RunDirectoryError, match="checkpoint: is not what the step train wrote"):
        policy_identity(str(weights.parent))
    assert policy_identity("some/model") == "some/model"
