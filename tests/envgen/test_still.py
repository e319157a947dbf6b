import io
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from envgen.mapf.boards import NAMES, board
from envgen.mapf.drawing import AGENT_COLOURS, FAILURE_COLOUR
from envgen.mapf.plan_picture import still_svg, to_png
from envgen.mapf.problem import Plan
from envgen.mapf.solver.solve import solve
from envgen.mapf.verifier import Verdict, verify_plan

SVG = "{http://www.w3.org/2000/svg}"
CELLS = st.tuples(st.integers(0, 999), st.integers(0, 999)) | st.tuples(st.integers(0, 3), st.integers(0, 3))
PLANS = st.lists(st.lists(CELLS, min_size=1, max_size=60).map(tuple), min_size=2, max_size=2).map(tuple)


def still(name: str, plan: Plan, optimum: int | None = None) -> str:
    return still_svg(board(name), plan, verify_plan(board(name), plan, optimum))


def marks(svg: str, agent: int) -> list[str]:
    """The texts that stand in a pill of an agent's colour."""
    elements = list(ElementTree.fromstring(svg).iter())
    return [
        mark.text or ""
        for pill, mark in pairwise(elements)
        if pill.tag == f"{SVG}rect" and pill.get("fill") == AGENT_COLOURS[agent]
    ]


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def pixels(svg: str) -> np.ndarray:
    """(height, width, 3) colours of the picture."""
    return np.asarray(Image.open(io.BytesIO(to_png(svg))).convert("RGB"))


def share(picture: np.ndarray, colour: str) -> float:
    return float((picture == [int(colour[i : i + 2], 16) for i in (1, 3, 5)]).all(axis=2).mean())


def test_marks_hold_the_steps_in_a_cell_and_waits_are_spans():
    plan = (((0, 1), (0, 1), (1, 1), (2, 1), (2, 1)), ((1, 0), (1, 1), (1, 2)))
    svg = still("crossing", plan, 5)
    assert marks(svg, 0) == ["0–1", "2", "3"]
    assert marks(svg, 1) == ["1", "2"]
    assert {"optimal plan", "sum of costs 5, makespan 3"} <= set(texts(svg))
    assert "valid plan" in texts(still("crossing", plan, 4))


def test_a_cell_entered_again_gathers_its_steps():
    there_and_back = ((0, 1), (1, 1)) * 5
    svg = still("crossing", (there_and_back, ((1, 0),)))
    assert marks(svg, 0) == ["1,3,5…", "2,4,6…"]
    assert marks(svg, 1) == []


@pytest.mark.parametrize(
    ("plan", "head", "detail"),
    [
        (
            (((0, 1), (1, 1), (2, 1)), ((1, 0), (1, 1), (1, 2))),
            "conflict in step 1 of 2",
            "agents 0 and 1 are both in (1,1) after step 1",
        ),
        (
            (((0, 1), (1, 1)), ((1, 0),)),
            "goal not reached by step 1 of 1",
            "agent 0 ends at (1,1), its goal is (2,1)",
        ),
        ((((0, 1), (0, 2)), ((1, 0),)), "hole collision in step 1 of 1", "agent 0 enters the hole (0,2)"),
    ],
)
def test_a_failure_is_framed_and_told_below(plan: Plan, head: str, detail: str):
    svg = still("crossing", plan)
    assert {head, detail} <= set(texts(svg))
    assert share(pixels(svg), FAILURE_COLOUR) > 0.005


def test_the_longest_reason_fits_into_the_picture():
    svg = still("crossing", (((0, 1), (999, 999), (888, 888)), ((1, 0),)))
    jump = still("bay", (((0, 0), (0, 1)), ((0, 3), (0, 2), (2, 0), (0, 0))))
    for picture in (svg, jump):
        assert share(pixels(picture)[1150:, -30:], "#FFFFFF") == 1, "the end of the line is not cut off"
        assert share(pixels(picture)[1150:, 120:900], "#FFFFFF") < 1


def test_an_answer_without_a_plan_shows_the_board_and_why():
    problem = board("crossing")
    verdict = Verdict(valid=False, category="parse_error", detail="nothing found")
    svg = still_svg(problem, tuple((agent.start,) for agent in problem.agents), verdict)
    assert {"parse error", "nothing found"} <= set(texts(svg))
    assert {"row", "column"} <= set(texts(svg))


@pytest.mark.parametrize("name", [name for name in NAMES if solve(board(name))])
def test_a_picture_has_every_agent_in_its_colour_letters_and_no_failure(name: str):
    problem, solution = board(name), solve(board(name))
    assert solution is not None
    svg = still(name, solution.plan, solution.sum_of_costs)
    picture = pixels(svg)
    assert picture.shape == (1206, 1122, 3)
    assert all(share(picture, AGENT_COLOURS[index]) > 0.002 for index in range(problem.num_agents))
    assert share(picture, FAILURE_COLOUR) == 0
    words = picture[1110:1160, 120:500]
    assert 0.02 < share(words, "#000000") < 0.5, "the verdict is written in letters"


@settings(max_examples=30, deadline=None)
@given(PLANS)
def test_any_plan_can_be_drawn(plan: Plan):
    assert len(texts(still("crossing", plan))) < 200


def test_a_still_has_no_animation_and_is_the_same_every_time():
    plan = solve(board("bay")).plan
    assert "<animate" not in still("bay", plan)
    assert to_png(still("bay", plan)) == to_png(still("bay", plan))
