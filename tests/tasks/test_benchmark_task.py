"""A benchmark of a server that answers well and badly in turn."""

import json
from pathlib import Path

import pytest
from support.boards import solve
from support.misbehaving_endpoint import Handler, completion, sends, serving

from envgen.dataset import write_dataset
from envgen.errors import DataError
from envgen.mapf.benchmark import SUITE_SHA256, load_suite
from envgen.mapf.problem import from_text
from envgen.mapf.prompts import PromptStyle, answer
from infra.benchmark.sources import limited
from infra.benchmark.spec import BenchmarkSpec, planned
from policy.rollouts import read_rollouts
from tasks.benchmark import answer_all


def solves_three_agents(handler: Handler) -> None:
    """The optimal plan where there are three agents, else no plan."""
    problem = from_text(handler.question["messages"][0]["content"])
    solution = solve(problem) if problem.num_agents == 3 else None
    sends(completion(answer(solution.plan) if solution else "no plan"))(handler)


def test_an_endpoint_answers_the_suite_once_and_the_same_call_finds_the_answers(tmp_path, monkeypatch):
    with serving(solves_three_agents) as server:
        spec = planned(BenchmarkSpec(model=f"{server.url}#some-model", limit=1))
        first = answer_all(tmp_path / "b", spec)
        monkeypatch.setattr("tasks.benchmark.code_version", lambda: "a later version")
        again = answer_all(tmp_path / "b", spec)
        assert len(server.asked) == 63
    assert again == first
    groups = ({}, *({"agents": f"{agents} agents"} for agents in (3, 4, 5)))
    scores = [score for group in groups if (score := first.score(group))]
    assert [(s.valid, s.optimal, s.n) for s in scores] == [(24, 24, 63), (24, 24, 24), (0, 0, 21), (0, 0, 18)]
    assert (first.spec.style, first.data_digest, first.spec.limit) == (PromptStyle.BOARD, SUITE_SHA256, 1)
    assert first.overall.completion_tokens == 63 * 5
    rollouts = read_rollouts(tmp_path / "b" / "rollouts.parquet")
    assert [r.instance for r in rollouts] == [item.instance for item in limited(load_suite(), 1)]
    assert json.loads((tmp_path / "b" / "benchmark.json").read_text())["spec"]["model"] == spec.model


def test_data_that_cannot_be_read_leave_nothing_behind(tmp_path: Path):
    write_dataset(tmp_path / "empty.parquet", [], PromptStyle.BOARD, {})
    for name, said in (("nothing", "expected a .parquet data set"), ("empty.parquet", "holds no instance")):
        with pytest.raises(DataError, match=f"{name}: {said}"):
            spec = BenchmarkSpec(model="http://localhost:1/v1#m", data=str(tmp_path / name))
            answer_all(tmp_path / "b", planned(spec))
    assert not (tmp_path / "b").exists()
