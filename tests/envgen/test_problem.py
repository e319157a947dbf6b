"""Problems: what is refused, how they are written, and their identities."""

from itertools import permutations

import pytest
from board_makers import SYMMETRIES, all_cells, make_problem, problems, repeatable, transformed
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from envgen.mapf.problem import Problem, identity, to_text
from envgen.mapf.prompts import PromptStyle, prompt

GOOD = {
    "id": "x",
    "size": 4,
    "holes": [[1, 1], [2, 3]],
    "agents": [{"start": [0, 0], "goal": [3, 3]}, {"start": [3, 0], "goal": [0, 3]}],
}


def agents(*pairs: object) -> dict[str, list[dict]]:
    return {"agents": [{"start": start, "goal": goal} for start, goal in pairs]}


@pytest.mark.parametrize("size", [0, -3, 2, 11, 10**9, 4.0, True, "4", None, [4], float("nan")])
def test_a_size_that_is_not_an_integer_from_3_to_10_is_refused(size: object):
    Problem.model_validate(GOOD)
    with pytest.raises(ValidationError) as caught:
        Problem.model_validate({**GOOD, "size": size})
    assert caught.value.errors()[0]["loc"] == ("size",)


@pytest.mark.parametrize("cell", [[-1, 0], [0, 10], [0.0, 1], [True, 1], ["0", "1"], [0], [0, 1, 2], None, 5])
def test_a_cell_that_is_not_a_pair_of_integers_on_a_board_is_refused(cell: object):
    for fields in ({"holes": [cell]}, agents((cell, [3, 3])), agents(([0, 0], cell))):
        with pytest.raises(ValidationError):
            Problem.model_validate({**GOOD, **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"holes": [[1, 1], [1, 1]]}, "hole is listed twice"),
        ({"holes": [[4, 0]]}, r"hole \(4, 0\) lies outside the 4x4 board"),
        (agents(([0, 4], [3, 3])), r"start \(0, 4\) lies outside"),
        (agents(([0, 0], [9, 9])), r"goal \(9, 9\) lies outside"),
        (agents(([0, 0], [3, 3]), ([0, 0], [3, 0])), "a start is listed twice; give each a cell"),
        (agents(([0, 0], [3, 3]), ([0, 1], [3, 3])), "a goal is listed twice"),
        (agents(([1, 1], [3, 3])), r"start \(1, 1\) lies on a hole; move it to a frozen cell"),
        (agents(([0, 0], [2, 3])), r"goal \(2, 3\) lies on a hole"),
        ({"agents": []}, "at least 1"),
        (agents(*(([r, c], [3 - r, c]) for r in (0, 3) for c in range(3))), "at most 5"),
        ({"holes": [[0, 0]] * 101}, "at most 100"),
        ({"id": "x" * 201}, "at most 200"),
        ({"colour": "red"}, "colour"),
        ({"agents": [{"start": [0, 0]}]}, "goal"),
    ],
)
def test_a_broken_problem_is_refused_with_a_message_that_names_the_fault(fields: dict, message: str):
    with pytest.raises(ValidationError, match=message):
        Problem.model_validate({**GOOD, **fields})


def test_the_letters_are_those_of_the_public_benchmark():
    problem = make_problem(5, ((2, 2),), tuple((0, c) for c in range(5)), tuple((4, c) for c in range(5)))
    assert to_text(problem).splitlines()[:5] == [
        "S s A B C",
        "F F F F F",
        "F F H F F",
        "F F F F F",
        "G g a b c",
    ]


@repeatable
@given(problems(), st.data())
def test_identity_is_the_same_in_every_mirror_and_agent_order(problem: Problem, data: st.DataObject):
    for symmetry in SYMMETRIES:
        order = data.draw(st.permutations(range(problem.num_agents)))
        assert identity(transformed(problem, symmetry, order)) == identity(problem)


def test_identity_gives_the_number_of_classes_that_counting_fixed_boards_gives():
    """Burnside's lemma: as many classes as boards that a symmetry leaves alone, on average over the 8
    symmetries."""
    pairs = [*permutations(all_cells(3), 2)]
    boards = {frozenset(zip(s, g, strict=True)): make_problem(3, (), s, g) for s in pairs for g in pairs}
    unmoved = 0
    for routes, problem in boards.items():
        for image in (transformed(problem, symmetry) for symmetry in SYMMETRIES):
            unmoved += {(agent.start, agent.goal) for agent in image.agents} == routes
    assert len({identity(problem) for problem in boards.values()}) == unmoved / 8


def test_identity_depends_on_size_holes_starts_goals_and_on_who_goes_where():
    starts, goals = ((0, 0), (3, 3)), ((2, 2), (1, 0))
    boards = [
        make_problem(4, ((0, 1),), starts, goals),
        make_problem(5, ((0, 1),), starts, goals),
        make_problem(4, ((0, 2),), starts, goals),
        make_problem(4, (), starts, goals),
        make_problem(4, ((0, 1),), ((0, 0), (3, 2)), goals),
        make_problem(4, ((0, 1),), starts, goals[::-1]),
        make_problem(4, ((0, 1),), goals, starts),
        make_problem(4, ((0, 1),), starts[:1], goals[:1]),
    ]
    assert len({identity(problem) for problem in boards}) == len(boards)


@repeatable
@given(problems())
def test_the_compact_prompt_shows_every_cell(problem: Problem):
    compact = prompt(problem, PromptStyle.COMPACT)
    assert all(
        f"Agent {i}: ({a.start[0]},{a.start[1]}) to ({a.goal[0]},{a.goal[1]})" in compact
        for i, a in enumerate(problem.agents)
    )
    assert all(f"({r},{c})" in compact.splitlines()[1] for r, c in problem.holes)
