from pathlib import Path

from boards import detour, draw_instances, off_the_grid, optimal, rollout, unfinished

from envgen.mapf.problem import Instance
from envgen.mapf.prompts import PromptStyle, answer
from envgen.mapf.verifier import FailureCategory
from policy.rollouts import read_rollouts, write_rollouts

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
    return answer((tuple(path), (instance.problem.agents[1].start,)))


RESPONSES = [optimal, detour, off_the_grid, unfinished, into_a_hole, lambda i: ""]
RESPONSES += [lambda i: "ünï\u2028\U0001f600\x00 Agent 0:"]
ALL_KINDS = [
    rollout(instance, respond(instance), truncated=index % 2 == 1)
    for index, respond in enumerate(RESPONSES)
    for instance in INSTANCES
]


def test_rollouts_of_every_kind_are_read_back_as_they_were(tmp_path: Path):
    for written in (ALL_KINDS, []):
        write_rollouts(tmp_path / "r.parquet", written, PromptStyle.COMPACT)
        assert read_rollouts(tmp_path / "r.parquet") == written
    failures = {FailureCategory.PARSE_ERROR, FailureCategory.ILLEGAL_MOVE, FailureCategory.GOAL_NOT_REACHED}
    assert {None, *failures} <= {r.verdict.category for r in ALL_KINDS}


def test_what_a_verdict_leaves_open_is_told_from_zeros_and_the_largest_numbers_fit(tmp_path: Path):
    instance = next(i for i in INSTANCES if i.problem.agents[0].start != (0, 0))
    first, second = (f"({row},{column})" for row, column in (a.start for a in instance.problem.agents))
    texts = [
        "no",
        optimal(instance),
        "Agent 0: (0,0)\nAgent 1: (0,1)",
        f"Agent 0: {first} (999,999)\nAgent 1: (999,0)",
        f"Agent 0: {first * 500}\nAgent 1: {second * 500}",
    ]
    written = [rollout(instance, text) for text in texts]
    write_rollouts(tmp_path / "r.parquet", written, PromptStyle.BOARD)
    read = read_rollouts(tmp_path / "r.parquet")
    assert read == written
    unreadable, right, top_left = (one.verdict for one in read[:3])
    assert (unreadable.cell, unreadable.agent, unreadable.step, unreadable.sum_of_costs) == (None,) * 4
    assert (right.category, right.sum_of_costs) == (None, instance.solution.sum_of_costs)
    assert (top_left.cell, top_left.agent, top_left.step) == ((0, 0), 0, 0)
