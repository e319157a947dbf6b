"""What checkpoints of the base policy are evaluated on, and the rates of the strata."""

from collections import Counter
from pathlib import Path

import pytest
from boards import optimal, rollout

from envgen.breakdown import wilson
from envgen.mapf.problem import Instance
from infra.config.recipe import load_recipe
from policy.tiny.corpus import evaluation_instances
from policy.tiny.rates import Rates, rates_of, rates_path
from policy.tiny.spec import Lesson

EACH = 2
HOLE_RATIOS = 3
LESSONS = {lesson.name: lesson for lesson in load_recipe(None, {}).lessons}


@pytest.fixture(scope="module", params=LESSONS)
def lesson(request: pytest.FixtureRequest) -> Lesson:
    return LESSONS[request.param]


@pytest.fixture(scope="module")
def boards(lesson: Lesson) -> list[Instance]:
    return evaluation_instances(lesson, EACH)


def test_boards_to_evaluate_on_are_as_many_of_every_kind_and_half_need_a_wait(
    lesson: Lesson, boards: list[Instance]
):
    assert {f"{board.problem.num_agents} agents" for board in boards} == {lesson.name}
    kinds = Counter(str(board.problem.size) for board in boards)
    assert kinds == dict.fromkeys(lesson.evaluated.strata, EACH * HOLE_RATIOS)
    waits = Counter(str(board.problem.size) for board in boards if board.solution.wait_required)
    assert waits == {size: EACH * HOLE_RATIOS // 2 for size in kinds if size != "3"}
    assert len({board.problem.id for board in boards}) == len(boards)
    assert [board.problem.id for board in evaluation_instances(lesson, EACH)] == [
        board.problem.id for board in boards
    ]


def test_rates_are_those_of_each_stratum_and_label(lesson: Lesson, boards: list[Instance]):
    rollouts = [
        rollout(board, optimal(board) if board.solution.wait_required or number % 2 == 0 else "no plan")
        for number, board in enumerate(boards)
    ]
    found = rates_of(lesson.name, lesson.task.space, rollouts)
    for size in lesson.evaluated.strata:
        of = [one for one in rollouts if str(one.instance.problem.size) == size]
        waits = [one for one in of if one.instance.solution.wait_required]
        rates = found.valid[f"{size}x{size}"]
        plain = [one.verdict.valid for one in of if not one.instance.solution.wait_required]
        assert rates[""] == wilson(sum(plain), len(plain))
        assert rates.get("waits") == (wilson(len(waits), len(waits)) if waits else None)
    assert found.line().startswith(f"{lesson.name}: ")
    assert ("(waits 100)" in found.line()) == (lesson.evaluated.strata.keys() != {"3"})


def test_a_stratum_without_plain_instances_says_so():
    rates = Rates(name="sums", valid={"2 terms": {"carries": wilson(1, 4)}, "3 terms": {"": wilson(3, 4)}})
    assert rates.line() == "sums: 2 terms - (carries 25), 3 terms 75"


def test_rates_of_checkpoints_lie_in_the_order_of_their_steps(tmp_path: Path):
    paths = [rates_path(tmp_path, step) for step in (500, 5_000, 10_000)]
    assert sorted(paths) == paths
    assert len(set(paths)) == 3
