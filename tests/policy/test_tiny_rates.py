"""What checkpoints of a base policy are evaluated on, and the rates of the strata."""

from collections import Counter
from pathlib import Path

import pytest
from boards import optimal, rollout

from envgen.breakdown import wilson
from envgen.mapf.problem import Instance
from policy.tiny.rates import EVALUATED, HOLE_RATIOS, evaluation_boards, rates_of, rates_path

EACH = 2


@pytest.fixture(scope="module")
def boards() -> list[Instance]:
    return evaluation_boards(EACH)


def test_boards_to_evaluate_on_are_as_many_of_every_kind_and_half_need_a_wait(boards: list[Instance]):
    kinds = Counter((board.problem.num_agents, board.problem.size) for board in boards)
    assert kinds == dict.fromkeys(EVALUATED, EACH * len(HOLE_RATIOS))
    waits = Counter(
        (board.problem.num_agents, board.problem.size) for board in boards if board.solution.wait_required
    )
    assert waits == {kind: kinds[kind] // 2 for kind in EVALUATED if kind[1] > 3}
    assert len({board.problem.id for board in boards}) == len(boards)


def test_boards_to_evaluate_on_are_always_the_same(boards: list[Instance]):
    assert [board.problem.id for board in evaluation_boards(EACH)] == [board.problem.id for board in boards]


def test_rates_are_those_of_each_stratum(boards: list[Instance]):
    right = [board.solution.wait_required or number % 2 == 0 for number, board in enumerate(boards)]
    found = rates_of(
        rollout(board, optimal(board) if right_one else "no plan")
        for board, right_one in zip(boards, right, strict=True)
    ).valid
    assert found["5 agents, 6x6, wait"] == wilson(3, 3)
    small = [number for number, board in enumerate(boards) if board.problem.size == 3]
    assert found["2 agents, 3x3, no wait"] == wilson(sum(number % 2 == 0 for number in small), len(small))
    assert "2 agents, 3x3, wait" not in found
    assert len(found) == 2 * len(EVALUATED) - 1


def test_rates_of_checkpoints_lie_in_the_order_of_their_steps(tmp_path: Path):
    paths = [rates_path(tmp_path, step) for step in (500, 5_000, 10_000)]
    assert sorted(paths) == paths
    assert len(set(paths)) == 3
