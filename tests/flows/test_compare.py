"""How a comparison starts its curricula: several at a time, each by itself, all stopped when the comparison
is."""

import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.comparisons import comparison

from engineer.gate import BASE_POLICY
from envgen.errors import ChildError, RunDirectoryError
from envgen.files import write_text
from flows.compare import _complain, _is_done, _run_all
from infra.comparison.gather import gather
from infra.comparison.spec import Child
from infra.config.preset import Preset
from infra.runs.files import ROLLOUTS
from infra.runs.run import Run
from infra.runs.steps import StepRecord, step_key
from policy.devices import share_of_cores
from tasks.compare import run_each
from tasks.data import generate, make_test, make_validation
from tasks.learn import evaluate_stage, evaluate_start, evaluate_test, summarize, train

CHILDREN = comparison("fixed", "random", "levels", "frontier", seeds=[0, 1]).children


def test_at_most_so_many_children_run_at_a_time_and_one_that_fails_takes_no_other_with_it():
    running, most, errors, progress_lines, lock = set(), [], {}, [], threading.Lock()

    def start(child: Child) -> None:
        with lock:
            running.add(child.name)
            most.append(len(running))
        time.sleep(0.02)
        with lock:
            running.remove(child.name)
        if child.name == "random-s0":
            raise RuntimeError("out of memory")

    def note(child: Child, error: BaseException | None, progress: str) -> None:
        assert threading.current_thread() is threading.main_thread(), "one thread publishes"
        errors[child.name] = str(error or "")
        progress_lines.append(progress)

    run_each(CHILDREN, 3, start, note, lambda: None)
    assert max(most) <= 3
    assert errors == {child.name: "" for child in CHILDREN} | {"random-s0": "out of memory"}
    assert progress_lines == [f"{number} of 8" for number in range(1, 9)]


def test_an_interruption_stops_what_runs_and_starts_nothing_more():
    stopped, started = threading.Event(), []

    def start(child: Child) -> None:
        started.append(child.name)
        if child is not CHILDREN[0]:
            assert stopped.wait(20)

    def interrupt(child: Child, error: BaseException | None, stands: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_each(CHILDREN, 2, start, interrupt, stopped.set)
    assert stopped.is_set()
    assert len(started) <= 3


def test_a_stage_0_that_fails_costs_the_curricula_of_its_seed_alone(tmp_path, monkeypatch):
    spec = comparison("fixed", "random", seeds=[0, 1])
    monkeypatch.setattr("flows.compare.publish_comparison", lambda _, spec, why, **more: dict(why))
    started = []

    class Runs:
        def run(self, child: Child) -> None:
            started.append(child.name)
            if child.name == "shared-s0":
                raise ChildError("out of memory")

        def stop(self) -> None:
            raise AssertionError

    failures = _run_all(tmp_path, spec, spec.children, Runs(), 1)
    assert started == ["shared-s0", "shared-s1", "fixed-s1", "random-s1"]
    assert failures == dict.fromkeys(["fixed-s0", "random-s0"], "shared-s0 failed: out of memory")


def test_only_what_this_call_asked_for_makes_it_fail(tmp_path: Path):
    spec = comparison("fixed", "random", "levels", seeds=[0])
    fixed, _, levels = spec.children
    results = gather(tmp_path, spec, {"levels-s0": "killed", "random-s0": "killed"})
    _complain(results, [fixed])
    with pytest.raises(ChildError, match="1 of 2 curricula failed: levels-s0\\. Run"):
        _complain(results, [fixed, levels])


def test_a_finished_child_whose_record_was_lost_is_done_again(tmp_path, monkeypatch):
    spec = comparison("fixed", "random", "levels", seeds=[0])
    random = spec.children[1]
    monkeypatch.setattr("flows.compare.is_finished", lambda directory, preset: directory.name != "levels-s0")
    (tmp_path / random.name / "stage-01").mkdir(parents=True)
    (tmp_path / random.name / "stage-01" / "manifest.json").touch()
    done = [child for child in spec.children if _is_done(tmp_path / child.name, child)]
    assert done == [spec.children[0]]


def play_stage_0(directory: Path, preset: Preset) -> None:
    run = Run(directory=directory, chosen=preset)
    validation, base = make_validation.fn(run), run.model(BASE_POLICY)
    evaluate_start.fn(run, BASE_POLICY, base, validation)
    test = make_test.fn(run, None, validation)
    evaluate_test.fn(run, BASE_POLICY, base, test)
    data = generate.fn(run, 0, preset.default_config, validation, test)
    checkpoint = train.fn(run, 0, data, base)
    rollouts = evaluate_stage.fn(run, 0, checkpoint, validation)
    evaluate_test.fn(run, 0, checkpoint, test)
    write_text(run.path(ROLLOUTS, BASE_POLICY), "the same answers")
    with suppress(RunDirectoryError):  # the breakdown, which nobody writes here
        summarize.fn(run, 0, run.evaluation(BASE_POLICY), rollouts)


def test_the_shared_stage_0_has_the_keys_of_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    keys: dict[str, str] = {}

    def keyed(_: Path, step: str, decides: dict, outputs: tuple, *__: Any, **___: Any) -> StepRecord:
        keys[step] = step_key(step, decides)
        return StepRecord(step=step, key=keys[step], outputs=dict.fromkeys(outputs, keys[step]), seconds=0)

    monkeypatch.setattr("tasks.step.run_step", keyed)
    spec = comparison("fixed", "random", seeds=[3], settings={"engineer.gate": "rollback"})
    [root] = spec.roots
    assert (root.name, root.preset.engineer.gate) == ("shared-s3", "off")
    play_stage_0(tmp_path / root.name, root.preset)
    shared = dict(keys)
    steps = {"validation", "start", "generate", "train", "evaluate", "summarize", "test-set", "test"}
    assert set(shared) == steps
    for child in spec.children:
        keys.clear()
        play_stage_0(tmp_path / child.name, child.preset)
        assert keys == shared


def test_children_that_run_side_by_side_share_the_cores(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert share_of_cores(3) == {"OMP_NUM_THREADS": "2"}
    assert share_of_cores(99)["OMP_NUM_THREADS"] == "1"
    assert share_of_cores(1) == {}
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert share_of_cores(3) == {"OMP_NUM_THREADS": "5"}
