from pathlib import Path

import pytest
from boards import Solver, detour, draw_instances, off_the_grid, optimal, unfinished

from envgen.dataset import USUAL
from envgen.errors import DataError
from envgen.mapf.problem import Instance
from envgen.mapf.prompts import PromptStyle
from envgen.mapf.verifier import FailureCategory, verify
from policy.chat.contract import Sampling
from policy.evaluation import evaluate
from policy.rollouts import Rollout, breakdown_of, read_rollouts, write_rollouts

INSTANCES = draw_instances()


def into_a_hole(instance: Instance) -> str:
    """Agent 0 walks over the grid to the first hole, whatever is on its way."""
    (row, column), (to_row, to_column) = instance.problem.agents[0].start, instance.problem.holes[0]
    path = [(row, column)]
    while (row, column) != (to_row, to_column):
        if row != to_row:
            row += 1 if row < to_row else -1
        else:
            column += 1 if column < to_column else -1
        path.append((row, column))
    rest = "".join(f"({r},{c})" for r, c in path)
    return (
        f"Agent 0: {rest}\nAgent 1:"
        f" ({instance.problem.agents[1].start[0]},{instance.problem.agents[1].start[1]})"
    )


def rollout(instance: Instance, completion: str, truncated: bool = False) -> Rollout:
    return Rollout(
        instance=instance,
        completion=completion,
        completion_tokens=len(completion),
        truncated=truncated,
        verdict=verify(instance, completion),
    )


ALL_KINDS = [
    rollout(instance, respond(instance), truncated=index % 2 == 1)
    for index, respond in enumerate(
        [
            optimal,
            detour,
            off_the_grid,
            unfinished,
            into_a_hole,
            lambda i: "",
            lambda i: "ünï\u2028\U0001f600\x00 Agent 0:",
        ]
    )
    for instance in INSTANCES
]


def test_rollouts_of_every_kind_are_read_back_as_they_were(tmp_path: Path):
    write_rollouts(tmp_path / "r.parquet", ALL_KINDS, PromptStyle.COMPACT)
    assert read_rollouts(tmp_path / "r.parquet") == ALL_KINDS
    categories = {r.verdict.category for r in ALL_KINDS}
    assert {
        None,
        FailureCategory.PARSE_ERROR,
        FailureCategory.ILLEGAL_MOVE,
        FailureCategory.GOAL_NOT_REACHED,
    } <= categories


def test_what_a_verdict_leaves_open_stays_open(tmp_path: Path):
    unreadable, valid = rollout(INSTANCES[0], "no"), rollout(INSTANCES[0], optimal(INSTANCES[0]))
    write_rollouts(tmp_path / "r.parquet", [unreadable, valid], PromptStyle.BOARD)
    first, second = (r.verdict for r in read_rollouts(tmp_path / "r.parquet"))
    assert (first.cell, first.agent, first.step, first.sum_of_costs, first.makespan) == (None,) * 5
    assert (second.category, second.cell, second.sum_of_costs) == (
        None,
        None,
        INSTANCES[0].solution.sum_of_costs,
    )


def test_the_top_left_cell_agent_0_and_step_0_are_no_blanks(tmp_path: Path):
    instance = next(i for i in INSTANCES if i.problem.agents[0].start != (0, 0))
    elsewhere = rollout(instance, "Agent 0: (0,0)\nAgent 1: (0,1)")
    write_rollouts(tmp_path / "r.parquet", [elsewhere], PromptStyle.BOARD)
    [read] = read_rollouts(tmp_path / "r.parquet")
    assert (read.verdict.cell, read.verdict.agent, read.verdict.step) == ((0, 0), 0, 0)


def test_the_largest_numbers_that_an_answer_can_name_fit(tmp_path: Path):
    instance = INSTANCES[0]
    start = instance.problem.agents[0].start
    far = rollout(instance, f"Agent 0: ({start[0]},{start[1]}) (999,999)\nAgent 1: (999,0)")
    (r, c), (row, column) = instance.problem.agents[1].start, instance.problem.agents[0].start
    long = rollout(instance, f"Agent 0: {f'({row},{column})' * 500}\nAgent 1: {f'({r},{c})' * 500}")
    write_rollouts(tmp_path / "r.parquet", [far, long], PromptStyle.BOARD)
    assert read_rollouts(tmp_path / "r.parquet") == [far, long]


def test_no_rollouts_make_a_file_without_rows(tmp_path: Path):
    write_rollouts(tmp_path / "r.parquet", [], PromptStyle.BOARD)
    assert read_rollouts(tmp_path / "r.parquet") == []


def test_a_file_of_something_else_is_a_data_error(tmp_path: Path):
    (tmp_path / "text.parquet").write_text("hello")
    for name, reason in (
        ("text.parquet", "not a readable Parquet file"),
        ("nowhere.parquet", "no such file"),
    ):
        with pytest.raises(DataError, match=reason) as refused:
            read_rollouts(tmp_path / name)
        assert str(tmp_path / name) in str(refused.value)


def test_a_breakdown_counts_what_went_wrong_by_map_size():
    rollouts = evaluate(
        Solver(INSTANCES, PromptStyle.COMPACT),
        USUAL.load(),
        INSTANCES,
        PromptStyle.COMPACT,
        Sampling(max_tokens=9),
    )
    worse = [rollout(i, "" if i.problem.size == 3 else detour(i)) for i in INSTANCES]
    counts = breakdown_of(USUAL.load(), rollouts + worse)
    n = {size: sum(i.problem.size == size for i in INSTANCES) for size in (3, 4)}
    assert list(counts.strata) == ["3", "4"]
    assert (counts.strata["3"].n, counts.strata["3"].valid, counts.strata["3"].optimal) == (
        2 * n[3],
        n[3],
        n[3],
    )
    assert counts.strata["3"].failures[FailureCategory.PARSE_ERROR] == n[3]
    assert (counts.strata["4"].n, counts.strata["4"].valid, counts.strata["4"].optimal) == (
        2 * n[4],
        2 * n[4],
        n[4],
    )
    assert sum(counts.strata["4"].failures.values()) == 0
