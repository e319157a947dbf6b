"""Boards and replays of plans as SVG for people: no script, no external resource, animated by SMIL.

A replay runs up to the step that the verdict names, marks the offending cell, holds, and starts again. A
viewer without animation shows its end.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import drawsvg

from envgen.mapf.drawing import AGENT_COLOURS, FAILURE_COLOUR, View, canvas, disc, draw_board, foot, square
from envgen.mapf.problem import Cell, Plan, Problem
from envgen.mapf.verifier import FailureCategory, Verdict, trace

Element = drawsvg.DrawingBasicElement

MAX_STEPS = 40
"""Steps shown at most: the last ones before the end of the replay."""

_LEAD, _GLIDE, _PAUSE, _HOLD = 0.8, 0.5, 0.3, 2.6
_STEP = _GLIDE + _PAUSE


def board_svg(problem: Problem) -> str:
    """Return a board as it is posed: holes, starts and goals."""
    view = View(problem.size)
    drawing = canvas(f"{problem.size}x{problem.size} board, {problem.num_agents} agents at their starts")
    draw_board(drawing, view, problem)
    for index, agent in enumerate(problem.agents):
        drawing.append(disc(view, index, view.centre(agent.start)))
    return str(drawing.as_svg(header=""))


def replay_svg(problem: Problem, plan: Plan, verdict: Verdict | None = None) -> str:
    """Return an endless replay of `plan`, which may be illegal: cells off the board are drawn at its edge.

    With a failing `verdict` the replay ends at its step and marks its cell; a goal that is missed is marked
    after the last step. The group `still`, which is hidden, shows the end without animation: a page may show
    it in place of the group `moving`.
    """
    steps = trace(plan, verdict)
    first = max(0, len(steps) - 1 - MAX_STEPS)
    frames = Frames(first, max(map(len, plan)) - 1, list(steps[first:]))
    outside = any(max(cell) >= problem.size for cells in frames.cells for cell in cells)
    view = View(problem.size, outside)
    drawing = canvas(f"{problem.size}x{problem.size} board, replay of a plan for {problem.num_agents} agents")
    draw_board(drawing, view, problem)
    for index, agent in enumerate(problem.agents):
        # Trails lie side by side.
        beside = (index - (problem.num_agents - 1) / 2) * 0.08
        colour = AGENT_COLOURS[index]
        radius = round(view.cell * 0.3, 2)
        drawing.append(drawsvg.Circle(*view.centre(agent.start), radius, fill=colour, fill_opacity=0.22))
        style = {"stroke_opacity": 0.55, "stroke_width": 2.5, "stroke_linejoin": "round"}
        trail = drawsvg.Path(fill="none", stroke=colour, **style, stroke_linecap="round")
        for step, cells in enumerate(frames.cells):
            (trail.L if step else trail.M)(*view.centre(cells[index], beside, beside))
        drawing.append(trail)
    moving, still = drawsvg.Group(class_="moving"), drawsvg.Group(class_="still", display="none")
    _draw_counter(moving, frames)
    last = frames.first + len(frames.cells) - 1
    still.append(foot(f"end: step {last} of {frames.total}", fill="currentColor", font_weight=600))
    if verdict and verdict.category and verdict.cell is not None:
        still.extend(_failure_marks(view, verdict.cell, verdict.category))
        moving.extend(_flashing(frames, *_failure_marks(view, verdict.cell, verdict.category)))
    for index in range(problem.num_agents):
        track = [view.spot(cells, index) for cells in frames.cells]
        still.append(disc(view, index, track[-1]))
        agent = disc(view, index, track[-1])
        frames.animate_motion(agent, track)
        moving.append(agent)
    drawing.extend([moving, still])
    return str(drawing.as_svg(header=""))


class Frames(NamedTuple):
    """The steps of a replay, `first` to `first + len(cells) - 1`, and when they happen."""

    first: int
    total: int
    """Steps of the whole plan."""
    cells: list[tuple[Cell, ...]]
    """Per step shown, the cell of every agent."""

    @property
    def duration(self) -> float:
        """Seconds of one round."""
        return _LEAD + (len(self.cells) - 1) * _STEP + _HOLD

    def departure(self, frame: int, later: float = 0.0) -> float:
        """Share of the duration at which the agents set out for a frame, or that many seconds later."""
        return round((_LEAD + (frame - 1) * _STEP + later) / self.duration, 4) if frame else 0.0

    def arrival(self, frame: int) -> float:
        """Share of the duration at which the agents have reached a frame."""
        return self.departure(frame, _GLIDE)

    def animate_motion(self, element: drawsvg.Group, track: Sequence[tuple[float, float]]) -> None:
        """Let `element`, whose base transform is the last spot, glide along `track`."""
        if len(set(track)) == 1:
            return
        times, spots, splines = [0.0], [track[0]], []
        for frame, (before, spot) in enumerate(pairwise(track), start=1):
            if spot != before:
                times += [self.departure(frame), self.arrival(frame)]
                spots += [before, spot]
                splines += ["0 0 1 1", "0.45 0 0.25 1"]
        values = ";".join(f"{x:g} {y:g}" for x, y in [*spots, track[-1]])
        easing = {"calcMode": "spline", "keySplines": ";".join([*splines, "0 0 1 1"])}
        timing = _timing([*times, 1.0])
        element.append(
            drawsvg.AnimateTransform("translate", f"{self.duration:g}s", values, **easing, **timing)
        )

    def animate_steps(self, element: Element, attribute: str, values: Mapping[float, object]) -> None:
        """Let an attribute jump from value to value, by their times."""
        seconds, listed = f"{self.duration:g}s", ";".join(map(str, values.values()))
        timing = _timing([*values])
        element.append_anim(drawsvg.Animate(attribute, seconds, listed, calcMode="discrete", **timing))


def _timing(times: Sequence[float]) -> dict[str, str]:
    return {"keyTimes": ";".join(f"{time:g}" for time in times), "repeatCount": "indefinite"}


def _draw_counter(drawing: drawsvg.Group, frames: Frames) -> None:
    """`step 3 of 7` under the board, one text a step, each visible in its turn."""
    last = len(frames.cells) - 1
    for frame in range(last + 1):
        text = foot(f"step {frames.first + frame} of {frames.total}", fill="currentColor", font_weight=600)
        if frame < last:
            text.args["visibility"] = "hidden"
        visible = {frames.departure(frame): "visible"}
        if frame:
            visible = {0.0: "hidden", **visible}
        if frame < last:
            visible[frames.departure(frame + 1)] = "hidden"
        if last:
            frames.animate_steps(text, "visibility", visible)
        drawing.append(text)


def _failure_marks(view: View, cell: Cell, category: FailureCategory) -> tuple[drawsvg.Group, Element]:
    """Return a frame around the offending cell, and the category beside the counter."""
    half, mark = view.cell * 0.5, drawsvg.Group()
    pale = {"fill": FAILURE_COLOUR, "fill_opacity": 0.2, "stroke": "#FFFFFF", "stroke_width": 7}
    mark.append(square(view, cell, half, rx=5, **pale))
    mark.append(square(view, cell, half, rx=5, fill="none", stroke=FAILURE_COLOUR, stroke_width=4))
    name = foot(category.value.replace("_", " "), "end", fill=FAILURE_COLOUR, font_weight=700)
    return mark, name


def _flashing(frames: Frames, mark: drawsvg.Group, name: Element) -> list[Element]:
    """Let a failure's frame flash, and its name appear, when the agents arrive at the last step."""
    arrival, beat = frames.arrival(len(frames.cells) - 1) or _LEAD / frames.duration, 0.28 / frames.duration
    flashes = {round(arrival + beats * beat, 4): opacity for beats, opacity in enumerate((1, 0.2, 1, 0.2, 1))}
    frames.animate_steps(mark, "opacity", {0.0: 0, **flashes})
    frames.animate_steps(name, "opacity", {0.0: 0, round(arrival, 4): 1})
    return [mark, name]
