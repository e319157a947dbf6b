"""How a comparison starts its curricula: several at a time, each by itself, all stopped when the comparison is."""

import threading
import time

import pytest

from flows.compare import _cores, _each
from infra.comparison.spec import Child, plan

CHILDREN = plan("micro", "fixed,random,levels,frontier", "0,1").children


def test_every_child_is_started_at_most_so_many_at_a_time():
    running, most, ended = set(), [], []
    lock = threading.Lock()

    def start(child: Child) -> None:
        with lock:
            running.add(child.name)
            most.append(len(running))
        time.sleep(0.02)
        with lock:
            running.remove(child.name)

    _each(CHILDREN, 3, start, lambda child, error: ended.append((child.name, error)), lambda: None)
    assert max(most) <= 3
    assert sorted(ended) == sorted((child.name, None) for child in CHILDREN)


def test_a_child_that_fails_takes_no_other_with_it():
    ended = {}

    def start(child: Child) -> None:
        if child.name == "random-s0":
            raise RuntimeError("out of memory")

    def note(child: Child, error: BaseException | None) -> None:
        assert threading.current_thread() is threading.main_thread(), "what is published is published by one thread"
        ended[child.name] = str(error or "")

    _each(CHILDREN, 2, start, note, lambda: None)
    assert ended == {child.name: "" for child in CHILDREN} | {"random-s0": "out of memory"}


def test_an_interruption_stops_what_runs_and_starts_nothing_more():
    stopped, started = threading.Event(), []

    def start(child: Child) -> None:
        started.append(child.name)
        if child is not CHILDREN[0]:
            assert stopped.wait(20)

    def interrupt(child: Child, error: BaseException | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _each(CHILDREN, 2, start, interrupt, stopped.set)
    assert stopped.is_set()
    assert len(started) <= 3


def test_children_that_run_side_by_side_share_the_cores(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("ENVWRIGHT_WORKERS", "1")
    assert _cores(3) == {"OMP_NUM_THREADS": "2", "ENVWRIGHT_WORKERS": "1"}
    assert _cores(99)["OMP_NUM_THREADS"] == "1"
    assert _cores(1) == {}
