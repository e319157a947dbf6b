import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pytest

from envgen.errors import ConfigError
from envgen.files import file_digest, write_json, write_text
from infra.config.preset import Preset, load_preset
from infra.runs import files
from infra.runs.run import open_run
from infra.runs.steps import StepRecord, intact
from infra.runs.sync import RemoteError, pull, push

MANIFEST = files.MANIFEST.name
FILES = ("checkpoint", "train.parquet")


def preset(**overrides: Any) -> Preset:
    return load_preset("micro", overrides)


@pytest.fixture(params=["memory", "file"])
def remote(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"memory://{uuid4().hex}/copies" if request.param == "memory" else (tmp_path / "copies").as_uri()


def finish_stage(run: Path, number: int, weights: str = "weights") -> Path:
    """A stage as the steps leave it."""
    stage = run / f"stage-{number:02d}"
    texts = {
        "checkpoint/model.safetensors": f"{weights} of stage {number}",
        "train.parquet": f"data of stage {number}",
        ".steps/train.lock": "",
        "work/checkpoint-1/optimizer.pt": "half done",
        "logs/training.log": "a line",
    }
    for name, text in texts.items():
        write_text(stage / name, text)
    outputs = {name: file_digest(stage / name) for name in FILES}
    record = StepRecord(step="train", key="", outputs=outputs, seconds=1)
    write_json(stage / ".steps/train.json", record)
    write_json(stage / MANIFEST, {"stage": number, "files": outputs})
    return stage


@pytest.fixture
def run(tmp_path: Path) -> Path:
    directory = tmp_path / "here" / "mine"
    open_run(directory, preset())
    for folder, step, name in (
        ("", "validation", "validation.parquet"),
        ("", "test-set", "test.parquet"),
        ("start", "start", "rollouts.parquet"),
    ):
        write_text(directory / folder / name, step)
        record = {"step": step, "outputs": {name: file_digest(directory / folder / name)}}
        write_json(directory / folder / ".steps" / f"{step}.json", record)
    for number in (0, 1):
        finish_stage(directory, number)
    return directory


@pytest.fixture
def back(tmp_path: Path) -> Path:
    return tmp_path / "there" / "mine"


def contents(directory: Path, lasting: bool = False) -> dict[str, bytes]:
    """The files of a run; `lasting`: without locks and what is only needed until a stage is complete."""
    paths = {path.relative_to(directory): path for path in directory.rglob("*") if path.is_file()}
    return {
        str(name): path.read_bytes()
        for name, path in paths.items()
        if not (lasting and (name.suffix == ".lock" or "work" in name.parts))
    }


def damage(remote: str, name: str, content: bytes | None) -> None:
    """Replace a file of the copy, or remove it."""
    fs, root = fsspec.url_to_fs(f"{remote}/mine/{name}")
    fs.pipe_file(root, content) if content is not None else fs.rm_file(root)


def test_a_run_comes_back_as_it_was_without_locks_and_work(run: Path, remote: str, back: Path):
    push(run, remote)
    assert pull(remote, back) == ["stage-00", "stage-01"]
    assert contents(back) == contents(run, lasting=True)
    assert [path.name for path in back.parent.iterdir()] == ["mine"]


def test_what_is_there_is_neither_sent_nor_fetched_again(run: Path, remote: str):
    assert push(run, remote) == len(contents(run, lasting=True))
    assert push(run, remote) == 0
    write_text(run / "results.json", "{}")
    finish_stage(run, 2)
    assert push(run, remote) == 1 + 5, "results, four files of the stage and its manifest"
    assert pull(remote, run) == []


def test_only_stages_that_are_missing_are_fetched(run: Path, remote: str, back: Path):
    push(run, remote)
    open_run(back, preset())
    write_text(finish_stage(back, 0, "other weights") / "mine.txt", "")
    write_text(back / "stage-01" / "config.json", "begun")
    assert "stage-01" in pull(remote, back)
    assert (back / "stage-00" / "mine.txt").exists()
    assert not (back / "stage-01" / "config.json").exists()


def test_a_decision_goes_both_ways_as_long_as_the_stage_is_the_same(run: Path, remote: str, back: Path):
    push(run, remote)
    pull(remote, back)
    write_json(back / "stage-01" / "decision.json", {"decision": "approve"})
    assert (push(back, remote), push(back, remote)) == (1, 0)
    pull(remote, run)
    assert "approve" in (run / "stage-01" / "decision.json").read_text()
    write_json(run / "stage-01" / "decision.json", {"decision": "reject"})
    pull(remote, run)
    assert "reject" in (run / "stage-01" / "decision.json").read_text(), "a decision made here stays"
    write_json(back / "stage-00" / "decision.json", {"decision": "approve"})
    push(back, remote)
    manifest = finish_stage(run, 0, "other weights") / MANIFEST
    pull(remote, run)
    assert not (manifest.parent / "decision.json").exists(), "it is about another stage 0"


def test_a_stage_without_a_manifest_is_not_fetched_and_a_damaged_one_is_found_out_and_sent_anew(
    run: Path, remote: str, back: Path
):
    push(run, remote)
    damage(remote, f"stage-00/{MANIFEST}", None)
    damage(remote, "stage-01/train.parquet", b"#" * 8)
    assert pull(remote, back) == ["stage-01"]
    assert intact(run / "stage-01")
    assert not intact(back / "stage-01")
    manifest = finish_stage(back, 1) / MANIFEST
    write_json(manifest, {"stage": 1, "seconds": 2})
    push(back, remote)
    third = back.parent.parent / "third" / "mine"
    assert "stage-01" in pull(remote, third)
    assert intact(third / "stage-01")


def test_the_manifest_is_sent_last_so_that_a_killed_upload_is_invisible(
    run: Path, remote: str, back: Path, monkeypatch: pytest.MonkeyPatch
):
    kind = type(fsspec.url_to_fs(remote)[0])
    send = kind.put_file

    def cut_off(self: Any, source: str, *rest: Any, **options: Any) -> None:
        if source.endswith(f"stage-01/{MANIFEST}"):
            raise ConnectionError("cut off")
        send(self, source, *rest, **options)

    with monkeypatch.context() as patch, pytest.raises(ConnectionError):
        patch.setattr(kind, "put_file", cut_off)
        push(run, remote)
    assert pull(remote, back) == ["stage-00"]
    assert push(run, remote) == 5, "the whole stage"
    assert pull(remote, back) == ["stage-01"]


def test_a_run_of_another_preset_or_a_damaged_one_is_neither_fetched_nor_overwritten(
    run: Path, remote: str, back: Path
):
    push(run, remote)
    open_run(back, preset(seed=5))
    for copy in (lambda: push(back, remote), lambda: pull(remote, back)):
        with pytest.raises(RemoteError, match="is a run of another preset"):
            copy()
    assert [path.name for path in back.iterdir()] == ["curriculum.json"]
    damage(remote, "curriculum.json", b"{")
    with pytest.raises(RemoteError, match=r"curriculum\.json is damaged; delete it"):
        pull(remote, back.parent / "new" / "mine")
    assert not (back.parent / "new").exists()


def test_only_runs_and_unused_folders_are_filled(run: Path, remote: str, back: Path):
    assert pull(remote, back) == []
    assert not back.exists()
    push(run, remote)
    write_text(back / "thesis.tex", "years of work")
    assert pull(remote, back) == []
    (back / "thesis.tex").rename(back / ".curriculum.json.123.partial")
    assert "stage-00" in pull(remote, back)


def test_a_url_that_cannot_work_is_refused(run: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(ConfigError, match="ENVWRIGHT_REMOTE: 'nowhere://x' is no URL that fsspec knows"):
        push(run, "nowhere://x")
    with pytest.raises(ConfigError, match="install the fsspec package for gcs"):
        push(run, "gcs://bucket")
