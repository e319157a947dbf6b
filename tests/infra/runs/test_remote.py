import json
import logging
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from envgen.errors import ConfigError
from envgen.files import file_digest, write_json, write_text
from infra.config.preset import Preset, load_preset
from infra.runs import remote_folder
from infra.runs.remote import INDEX, MANIFEST, pull, push
from infra.runs.remote_folder import Remote, RemoteError
from infra.runs.run import open_run


def preset(**overrides: Any) -> Preset:
    return load_preset("micro", overrides)


@pytest.fixture(params=["memory", "file"])
def remote(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"memory://{uuid4().hex}/copies" if request.param == "memory" else (tmp_path / "copies").as_uri()


def finish_stage(run: Path, number: int, weights: str = "weights") -> Path:
    """A stage as the steps leave it."""
    stage = run / f"stage-{number:02d}"
    write_text(stage / "checkpoint" / "model.safetensors", f"{weights} of stage {number}")
    write_text(stage / "train.parquet", f"data of stage {number}")
    write_text(stage / ".steps" / "train.json", "{}")
    write_text(stage / ".steps" / "train.lock", "")
    write_text(stage / "work" / "checkpoint-1" / "optimizer.pt", "half done")
    write_text(stage / "logs" / "training.log", "a line")
    write_json(
        stage / MANIFEST,
        {
            "stage": number,
            "files": {name: file_digest(stage / name) for name in ("checkpoint", "train.parquet")},
        },
    )
    return stage


@pytest.fixture
def run(tmp_path: Path) -> Path:
    directory = tmp_path / "here" / "mine"
    open_run(directory, preset())
    write_text(directory / "validation.parquet", "boards")
    write_text(directory / ".steps" / "validation.json", "{}")
    write_text(directory / "start" / "rollouts.parquet", "answers")
    write_text(directory / "start" / ".steps" / "start.json", "{}")
    for number in (0, 1):
        finish_stage(directory, number)
    return directory


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


def lasting(directory: Path) -> dict[str, bytes]:
    return {
        name: content
        for name, content in contents(directory).items()
        if not name.endswith(".lock") and "work" not in Path(name).parts
    }


def damage(remote: str, run: Path, name: str, content: bytes) -> None:
    there = Remote(remote, run.name)
    there.fs.pipe_file(f"{there.root}/{name}", content)


def test_a_run_comes_back_as_it_was_without_locks_and_work(run: Path, remote: str, tmp_path: Path):
    push(run, remote)
    back = tmp_path / "there" / "mine"
    assert {"stage-00", "stage-01"} <= set(pull(remote, back))
    assert contents(back) == lasting(run)
    assert [path.name for path in back.parent.iterdir()] == ["mine"]


def test_what_is_there_is_not_sent_again(run: Path, remote: str):
    assert push(run, remote) == len(lasting(run))
    assert push(run, remote) == 0
    write_text(run / "results.json", "{}")
    write_text(run / "validation.parquet", "others")
    assert push(run, remote) == 2
    finish_stage(run, 2)
    assert push(run, remote) == 5, "four files of the stage and its manifest"


def test_a_decision_made_after_its_stage_was_sent_is_sent_too(run: Path, remote: str, tmp_path: Path):
    push(run, remote)
    write_json(run / "stage-01" / "decision.json", {"decision": "reject"})
    assert push(run, remote) == 1
    assert push(run, remote) == 0
    back = tmp_path / "there" / "mine"
    pull(remote, back)
    assert (back / "stage-01" / "decision.json").read_bytes() == (
        run / "stage-01" / "decision.json"
    ).read_bytes()


def test_a_decision_made_elsewhere_on_a_stage_that_is_here_is_fetched(run: Path, remote: str, tmp_path: Path):
    push(run, remote)
    other = tmp_path / "there" / "mine"
    pull(remote, other)
    decision = other / "stage-01" / "decision.json"
    write_json(decision, {"decision": "approve"})
    push(other, remote)
    pull(remote, run)
    assert (run / "stage-01" / "decision.json").read_bytes() == decision.read_bytes()
    write_json(run / "stage-01" / "decision.json", {"decision": "reject"})
    pull(remote, run)
    assert "reject" in (run / "stage-01" / "decision.json").read_text(), "one that is here stays"
    write_json(other / "stage-00" / "decision.json", {"decision": "approve"})
    push(other, remote)
    there = Remote(remote, run.name)
    there.fs.rm_file(f"{there.part('stage-00')}/manifest.json")
    pull(remote, run)
    assert not (run / "stage-00" / "decision.json").exists(), "the stage is being sent"
    push(other, remote)
    finish_stage(run, 0, "other weights")
    pull(remote, run)
    assert not (run / "stage-00" / "decision.json").exists(), "it is about another stage 0"


def test_what_is_here_is_not_fetched(run: Path, remote: str):
    push(run, remote)
    write_text(run / "results.json", "newer")
    assert pull(remote, run) == []
    assert (run / "results.json").read_text() == "newer"


def test_only_stages_that_are_missing_are_fetched(run: Path, remote: str, tmp_path: Path):
    push(run, remote)
    back = tmp_path / "there" / "mine"
    open_run(back, preset())
    write_text(finish_stage(back, 0, "other weights") / "mine.txt", "")
    write_text(back / "stage-01" / "config.json", "begun")
    assert "stage-01" in pull(remote, back)
    assert (back / "stage-00" / "mine.txt").exists()
    assert not (back / "stage-01" / "config.json").exists()


@pytest.mark.parametrize("victim", ["train.parquet", "checkpoint/model.safetensors", MANIFEST, INDEX])
def test_a_damaged_stage_is_ignored_with_a_warning_and_sent_anew_once_it_is_redone(
    victim: str, run: Path, remote: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    push(run, remote)
    damage(remote, run, f"stage-00/{victim}", b"#" * 8)
    back = tmp_path / "there" / "mine"
    with caplog.at_level(logging.WARNING, "envwright.remote"):
        found = pull(remote, back)
    assert "stage-00" not in found
    assert "stage-01" in found
    assert "mine/stage-00 is ignored" in caplog.text
    assert Path(victim).parts[0] in caplog.text
    assert not (back / "stage-00").exists()
    manifest = finish_stage(back, 0) / MANIFEST
    write_json(manifest, {**json.loads(manifest.read_bytes()), "seconds": 2})
    push(back, remote)
    assert "stage-00" in pull(remote, tmp_path / "third" / "mine")


@pytest.mark.parametrize("victim", [MANIFEST, "train.parquet"])
def test_a_stage_that_is_partly_there_is_not_trusted(victim: str, run: Path, remote: str, tmp_path: Path):
    push(run, remote)
    there = Remote(remote, run.name)
    there.fs.rm_file(f"{there.root}/stage-01/{victim}")
    assert "stage-01" not in pull(remote, tmp_path / "there" / "mine")


def test_the_manifest_is_sent_last_and_an_interrupted_copy_goes_on(
    run: Path, remote: str, monkeypatch: pytest.MonkeyPatch
):
    there = Remote(remote, run.name)
    send, sent = type(there.fs).put_file, []

    def cut_off(self: Any, source: str, *rest: Any, **options: Any) -> None:
        if "train.parquet" in source:
            raise ConnectionError("cut off")
        sent.append(source)
        send(self, source, *rest, **options)

    with monkeypatch.context() as patch, pytest.raises(ConnectionError):
        patch.setattr(type(there.fs), "put_file", cut_off)
        push(run, remote)
    assert not there.fs.exists(f"{there.root}/stage-00/{MANIFEST}")
    assert push(run, remote) == len(lasting(run)) - len([path for path in sent if "/stage-00/" not in path])


def test_a_damaged_file_of_the_run_is_not_used(
    run: Path, remote: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    push(run, remote)
    damage(remote, run, "validation.parquet", b"boardz")
    back = tmp_path / "there" / "mine"
    found = pull(remote, back)
    assert not (back / "validation.parquet").exists()
    assert "validation.parquet does not match its digest" in caplog.text
    assert {"curriculum.json", "start/rollouts.parquet", "stage-00", "stage-01"} <= set(found)


def test_a_run_of_another_preset_is_neither_fetched_nor_overwritten(run: Path, remote: str, tmp_path: Path):
    push(run, remote)
    other = tmp_path / "there" / "mine"
    open_run(other, preset(seed=5))
    for copy in (lambda: push(other, remote), lambda: pull(remote, other)):
        with pytest.raises(RemoteError, match="is a run of another preset"):
            copy()
    assert [path.name for path in other.iterdir()] == ["curriculum.json"]


def test_nothing_is_fetched_into_a_folder_that_is_no_run(run: Path, remote: str, tmp_path: Path):
    push(run, remote)
    thesis = tmp_path / "there" / "mine"
    write_text(thesis / "thesis.tex", "years of work")
    assert pull(remote, thesis) == []
    assert [path.name for path in thesis.iterdir()] == ["thesis.tex"]


def test_nothing_there_is_no_error(remote: str, tmp_path: Path):
    assert pull(remote, tmp_path / "mine") == []
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("name", ["../../escaped.txt", "/tmp/envwright-escaped.txt"])
def test_an_index_cannot_write_outside_of_the_run(
    name: str, run: Path, remote: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    push(run, remote)
    damage(remote, run, f"stage-00/{INDEX}", json.dumps({name: "0" * 64}).encode())
    assert "stage-00" not in pull(remote, tmp_path / "there" / "mine")
    assert "lies outside" in caplog.text


@pytest.mark.parametrize("document", [INDEX, MANIFEST])
@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        (["/dev/zero"], "'/dev/zero', which lies outside"),
        (["/usr"], "'/usr', which lies outside"),
        (["../../start"], "which lies outside"),
        (["x" * 5000], "which is longer than"),
        (["/".join(["x" * 100] * 30)], "which is longer than"),
        (["", "."], "which is no name of a file"),
        (["a\0b"], "which is no name of a file"),
        (["a//b"], "which is no name of a file"),
        (["a", "a/b"], "'a' as a file and as a folder"),
    ],
)
def test_names_of_a_remote_that_are_none_are_refused(
    document: str,
    names: list[str],
    complaint: str,
    run: Path,
    remote: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
):
    push(run, remote)
    named = dict.fromkeys(names, "0" * 64)
    damage(
        remote,
        run,
        f"stage-00/{document}",
        json.dumps({"files": named} if document == MANIFEST else named).encode(),
    )
    found = pull(remote, tmp_path / "there" / "mine")
    assert "stage-00" not in found
    assert "stage-01" in found
    assert complaint in caplog.text


@pytest.mark.parametrize("victim", ["train.parquet", INDEX, MANIFEST])
def test_a_link_to_a_device_at_a_remote_is_not_read(
    victim: str, run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    remote = (tmp_path / "copies").as_uri()
    push(run, remote)
    path = tmp_path / "copies" / "mine" / "stage-00" / victim
    path.unlink()
    path.symlink_to("/dev/zero")
    assert "stage-00" not in pull(remote, tmp_path / "there" / "mine")
    assert f"{victim} is no file" in caplog.text


def test_an_index_that_is_too_long_is_not_read(
    run: Path, remote: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    push(run, remote)
    monkeypatch.setattr(remote_folder, "MAX_DOCUMENT", 100_000)
    damage(remote, run, f"stage-00/{INDEX}", b" " * 100_001)
    assert "stage-00" not in pull(remote, tmp_path / "there" / "mine")
    assert f"{INDEX} has more than 100,000 bytes" in caplog.text


def test_the_half_written_claim_of_a_killed_process_is_no_folder_of_something_else(
    run: Path, remote: str, tmp_path: Path
):
    push(run, remote)
    back = tmp_path / "there" / "mine"
    write_text(back / ".curriculum.json.123.partial", "half")
    assert "stage-00" in pull(remote, back)


def test_a_url_that_means_nothing_is_refused(run: Path):
    with pytest.raises(ConfigError, match=r"ENVWRIGHT_REMOTE: 'nowhere://x' is no URL that fsspec knows"):
        push(run, "nowhere://x")


def test_a_missing_package_is_named(run: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(ConfigError, match="install the fsspec package for gcs"):
        push(run, "gcs://bucket")
