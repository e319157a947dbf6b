import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envgen.errors import RunDirectoryError
from envgen.files import write_text
from infra.config.preset import Preset, load_preset
from infra.runs.files import CHANGES, CURRICULUM, RESULTS, File
from infra.runs.lock import exclusive, holder
from infra.runs.run import Run, checked_run, default_name, open_run
from infra.runs.steps import run_step


def preset(**overrides: Any) -> Preset:
    return load_preset("micro", {key.replace("__", "."): value for key, value in overrides.items()})


def test_a_run_that_needs_approval_keeps_needing_it_until_somebody_says_otherwise(tmp_path: Path):
    directory = tmp_path / "mine"
    assert open_run(directory, preset()).preset.approval is None
    assert open_run(directory, preset(approval="required")).preset.approval == "required"
    assert open_run(directory, preset(stages=1)).preset.approval == "required"
    stored = Run(directory=directory).preset
    assert (stored.approval, stored.stages) == ("required", 2)
    assert open_run(directory, preset(approval="none")).preset.approval == "none"
    assert open_run(directory, preset()).preset.approval == "none"


def test_a_model_of_the_hub_keeps_the_commit_that_its_run_began_with(tmp_path: Path, monkeypatch):
    def at(commit: str) -> Run:
        path = f"/cache/snapshots/{commit}/config.json"
        monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda *_, **__: path)
        return open_run(tmp_path / "mine", preset(model="org/model", stages=2 + len(commit)))

    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, revision, **_: f"/{revision}")
    for run in (at("1"), at("22"), at("1")):
        assert (run.policy(-1), run.identity(-1)) == ("/1", "org/model@1")


def test_looking_at_a_run_writes_nothing(tmp_path: Path):
    assert checked_run(tmp_path / "new", preset()).preset == preset()
    assert not (tmp_path / "new").exists()
    open_run(tmp_path / "old", preset())
    before = Run(directory=tmp_path / "old").read(CURRICULUM)
    assert checked_run(tmp_path / "old", preset(stages=5, approval="required")).preset.stages == 5
    assert Run(directory=tmp_path / "old").read(CURRICULUM) == before


SMALLER_PARTS = {"trl__per_device_train_batch_size": 16, "trl__gradient_accumulation_steps": 2}
"""After a run out of memory: the same steps in smaller parts."""


@pytest.mark.parametrize(
    ("begun", "resumed"),
    [
        ({}, {}),
        ({"stages": 2}, {"stages": 5}),
        ({"stages": 5}, {"stages": 1, "description": "again"}),
        ({}, {"engine__batch_size": 512}),
        ({}, SMALLER_PARTS | {"trl__gradient_checkpointing": True}),
    ],
)
def test_a_run_is_resumed_with_other_stages_words_and_parts_of_a_machine(tmp_path, begun, resumed):
    first, file = open_run(tmp_path, preset(**begun)), tmp_path / "curriculum.json"
    (tmp_path / "stage-00").mkdir()
    before = file.stat().st_mtime_ns
    second = open_run(tmp_path, preset(**resumed))
    assert second.preset == preset(**resumed)
    stored = Run(directory=tmp_path).preset
    assert stored.stages == max(first.preset.stages, second.preset.stages), "the file keeps the longest"
    assert (file.stat().st_mtime_ns == before) == (stored == first.preset)


def test_results_are_not_cut_to_fewer_stages_than_there_are(tmp_path: Path):
    open_run(tmp_path, preset(stages=5))
    for number in range(4):
        write_text(tmp_path / f"stage-{number:02}" / "manifest.json", "{}")
    assert open_run(tmp_path, preset(stages=1)).preset.stages == 4


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        ({"seed": 3}, "seed: 0 there, 3 here"),
        ({"trl__learning_rate": 0.5}, "(trl.learning_rate: 0.0001 there, 0.5 here)"),
        ({"trl__per_device_train_batch_size": 16}, "training.answers_a_step: 32 there, 16 here"),
        ({"chat_template_kwargs.thinking": False}, "kwargs.thinking: not set there, False here"),
        ({"engine__backend": "vllm"}, "engine.backend: not set there, vllm here"),
        ({"engineer__context": "V1"}, "(engineer.context: V6 there, V1 here)"),
        ({"default_config.sizes.4.hole_ratio": 0.2}, "(default_config.sizes.4.hole_ratio: 0.3 there, 0.2 he"),
        ({"model": "./" + "a" * 90 + "c"}, "(model: tiny there, ./" + "a" * 58 + "... here)"),
        (
            {"instances": 24, "max_answer_tokens": 30},
            "instances: 16 there, 24 here; max_answer_tokens: 40 there, 30 here",
        ),
    ],
)
def test_another_preset_is_refused_with_the_fields_that_differ(tmp_path, overrides: dict, complaint: str):
    directory = tmp_path / "mine"
    open_run(directory, preset())
    before = (directory / "curriculum.json").read_bytes()
    with pytest.raises(RunDirectoryError) as refused:
        open_run(directory, preset(**overrides))
    assert all(part in str(refused.value) for part in (complaint, str(directory), "--name"))
    assert (directory / "curriculum.json").read_bytes() == before


def test_a_directory_of_something_else_is_refused_and_left_alone(tmp_path: Path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RunDirectoryError, match=r"is no curriculum \(curriculum.json is missing\)"):
        open_run(tmp_path, preset())
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"name": "x", "preset": {"name": "x"}}'])
def test_a_damaged_curriculum_is_refused(tmp_path: Path, content: str):
    (tmp_path / "curriculum.json").write_text(content)
    with pytest.raises(RunDirectoryError, match=r"curriculum\.json: damaged, or made by another version"):
        open_run(tmp_path, preset())
    assert (tmp_path / "curriculum.json").read_text() == content


@pytest.mark.parametrize("file", [CURRICULUM, RESULTS])
def test_reading_what_is_not_there_says_so(tmp_path: Path, file: File):
    text = tmp_path / "file.txt"
    text.write_text("")
    for path in (tmp_path / "nowhere", tmp_path, text):
        with pytest.raises(RunDirectoryError, match="is missing") as refused:
            Run(directory=path).read(file)
        assert str(path) in str(refused.value)


def test_names_say_what_a_run_is():
    random = preset(seed=4, engineer__context="V1", engineer__name="random")
    assert (default_name(preset()), default_name(random)) == ("micro-checkpoint-V6-s0", "micro-random-V1-s4")


KILLED = """
import os, pathlib, sys
from infra.runs.lock import exclusive
with exclusive(pathlib.Path(sys.argv[1])):
    os.kill(os.getpid(), 9)
"""


def test_one_process_at_a_time_works_on_a_run_until_it_ends_or_is_killed(tmp_path: Path):
    directory = tmp_path / "mine"
    subprocess.run([sys.executable, "-c", KILLED, str(directory)], timeout=60)
    assert (tmp_path / ".locks" / "mine.owner").exists()
    assert holder(directory) == holder(tmp_path / "never") == ""
    with exclusive(directory), exclusive(tmp_path / "other"):
        assert holder(directory).startswith(f"process {os.getpid()} on ")
        with pytest.raises(RunDirectoryError, match="another process is working on this run"):
            exclusive(directory).__enter__()
        assert not directory.exists(), "the lock lies beside the run, not in it"
    assert holder(directory) == ""


def test_half_written_files_of_dead_processes_block_no_name_and_are_removed_at_start(tmp_path: Path):
    folder, dead = tmp_path / "mine" / "stage-00", f".rollouts.parquet.{10**30}.partial"
    kept = (f".rollouts.parquet.{os.getpid()}.partial", "mine.7.partial", ".rollouts.partial")
    write_text(tmp_path / "mine" / f".curriculum.json.{10**30}.partial", "half")
    open_run(tmp_path / "mine", preset())
    for name in (dead, *kept):
        write_text(folder / name, "half")
    with exclusive(tmp_path):
        assert (folder / dead).exists(), "a comparison leaves them to its runs"
    with exclusive(tmp_path / "mine"):
        assert sorted(path.name for path in folder.iterdir()) == sorted(kept)
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["curriculum.json", "stage-00"]


def test_what_a_step_recorded_is_not_read_as_anything_else(tmp_path: Path):
    run = Run(directory=tmp_path)
    path = run.path(CHANGES, 0)
    run_step(path.parent, "gate", {}, (path.name,), lambda: write_text(path, '{"solved": 1}'))
    write_text(run.path(CHANGES, 0), '{"solved": 3}')
    with pytest.raises(
        RunDirectoryError, match=r"changes\.json: is not what the step gate wrote.*run the same command again"
    ):
        _ = run.read(CHANGES, 0)
