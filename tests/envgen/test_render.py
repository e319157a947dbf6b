import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.boards import board, solve

from envgen.mapf.problem import Plan
from envgen.mapf.render import FAILURE_COLOUR, MAX_STEPS, board_svg, replay_svg
from envgen.mapf.verifier import FailureCategory, verify_plan

SVG = "{http://www.w3.org/2000/svg}"
CELLS = st.tuples(st.integers(0, 999), st.integers(0, 999)) | st.tuples(st.integers(0, 3), st.integers(0, 3))
PLANS = st.lists(st.lists(CELLS, min_size=1, max_size=60).map(tuple), min_size=2, max_size=2).map(tuple)


def replay(name: str, plan: Plan) -> ElementTree.Element:
    return ElementTree.fromstring(replay_svg(board(name), plan, verify_plan(board(name), plan)))


def texts(svg: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in svg.iter(f"{SVG}text")]


def motions(svg: ElementTree.Element) -> list[list[tuple[float, float]]]:
    """Per moving agent, the spots that its animation visits."""
    return [
        [tuple(map(float, spot.split())) for spot in motion.attrib["values"].split(";")]
        for motion in svg.iter(f"{SVG}animateTransform")
    ]


def test_an_optimal_plan_is_replayed_to_its_end_without_a_failure():
    problem = board("corridor-22")
    svg = replay("corridor-22", solve(problem).plan)
    assert len(motions(svg)) == problem.num_agents
    assert [text for text in texts(svg) if text.startswith("step")][-1] == "step 7 of 7"
    assert FAILURE_COLOUR not in ElementTree.tostring(svg, encoding="unicode")


@pytest.mark.parametrize(
    ("plan", "category", "last"),
    [
        ((((0, 1), (1, 1), (2, 1)), ((1, 0), (1, 1), (1, 2))), FailureCategory.CONFLICT, "step 1 of 2"),
        ((((0, 1), (1, 1), (2, 1)), ((1, 0), (0, 0), (1, 2))), FailureCategory.HOLE_COLLISION, "step 1 of 2"),
        ((((0, 1), (1, 1), (1, 2), (1, 3)), ((1, 0),)), FailureCategory.ILLEGAL_MOVE, "step 3 of 3"),
        ((((2, 2),), ((1, 0),)), FailureCategory.ILLEGAL_MOVE, "step 0 of 0"),
        ((((0, 1), (1, 1), (1, 1)), ((1, 0),)), FailureCategory.GOAL_NOT_REACHED, "step 2 of 2"),
    ],
)
def test_a_replay_ends_at_the_failing_step_and_names_it(plan: Plan, category: FailureCategory, last: str):
    shown = texts(replay("crossing", plan))
    assert last in shown
    assert category.value.replace("_", " ") in shown
    steps = [text for text in shown if text.startswith("step")]
    assert steps[-1] == last


@settings(max_examples=40, deadline=None)
@given(PLANS)
def test_any_plan_gives_a_well_formed_drawing_that_stays_inside_its_frame(plan: Plan):
    svg = replay("crossing", plan)
    width, height = map(float, svg.attrib["viewBox"].split()[2:])
    assert all(0 <= x <= width and 0 <= y <= height for track in motions(svg) for x, y in track)
    for animation in [*svg.iter(f"{SVG}animate"), *svg.iter(f"{SVG}animateTransform")]:
        times = [float(time) for time in animation.attrib["keyTimes"].split(";")]
        assert times[0] == 0
        assert times == sorted(times)
        assert times[-1] <= 1
        assert len(times) == len(animation.attrib["values"].split(";"))
        assert animation.attrib["repeatCount"] == "indefinite"


def test_a_very_long_plan_is_shown_from_its_last_steps():
    path = ((0, 1), (1, 1)) * 200
    steps = [text for text in texts(replay("crossing", (path, ((1, 0),)))) if text.startswith("step")]
    assert len(steps) == MAX_STEPS + 1
    assert steps[-1] == "step 399 of 399"


def test_agents_in_one_cell_stand_side_by_side():
    svg = replay("crossing", (((0, 1), (1, 1)), ((1, 0), (1, 1))))
    first, second = (track[-1] for track in motions(svg))
    assert first[0] < second[0]
    assert first[1] == second[1]


def test_the_end_of_a_replay_is_drawn_a_second_time_without_animation():
    svg = replay("crossing", (((0, 1), (1, 1), (2, 1)), ((1, 0), (1, 1), (1, 2))))
    groups = {group.get("class"): group for group in svg.iter(f"{SVG}g")}
    assert groups["still"].get("display") == "none"
    assert {"end: step 1 of 2", "conflict"} < set(texts(groups["still"]))
    animated = [
        [*group.iter(f"{SVG}animate"), *group.iter(f"{SVG}animateTransform")]
        for group in (groups["still"], groups["moving"], svg)
    ]
    assert animated[0] == []
    assert animated[1] == animated[2] != []


def test_drawings_need_neither_scripts_nor_anything_from_elsewhere():
    problem = board("bay")
    foreign = {f"{SVG}{tag}" for tag in ("script", "image", "use", "style", "foreignObject")}
    for text in (board_svg(problem), replay_svg(problem, solve(problem).plan)):
        assert not re.search(r"https?://(?!www\.w3\.org/)", text)
        assert not foreign & {element.tag for element in ElementTree.fromstring(text).iter()}


def test_a_board_shows_every_agent_twice_and_no_step():
    shown = texts(ElementTree.fromstring(board_svg(board("crossing"))))
    assert shown.count("0") == shown.count("1") == 2 + 2
    assert not any("step" in text for text in shown)
