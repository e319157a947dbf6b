"""Boards and replays of plans as SVG for people: no script, no external resource, animated by SMIL.

A replay runs up to the step that the verdict names, marks the offending cell, holds, and starts again. A viewer without
animation shows its end. Colours are those of Okabe and Ito, which stay apart for colour-blind readers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import drawsvg

from envgen.problem import Cell, Plan, Problem
from envgen.verifier import FailureCategory, Verdict

AGENT_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9")
FAILURE_COLOUR = "#D55E00"
MAX_STEPS = 40
"""Steps shown at most: the last ones before the end of the replay."""

_ICE, _ICE_LINE, _HOLE, _INK = "#E7F0F7", "#C5D6E3", "#3A4754", "#1B1F24"
_NUMBER_COLOURS = ("#FFFFFF", _INK, "#FFFFFF", _INK, _INK)
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOARD = 360, 372, 26, 22, 320
_LEAD, _GLIDE, _PAUSE, _HOLD = 0.8, 0.5, 0.3, 2.6
_STEP = _GLIDE + _PAUSE


def board_svg(problem: Problem) -> str:
    """A board as it is posed: holes, starts and goals."""
    view = _View(problem.size, _BOARD / problem.size)
    drawing = _drawing(problem, f"{problem.size}x{problem.size} board, {problem.num_agents} agents at their starts")
    _draw_board(drawing, view, problem)
    for index, agent in enumerate(problem.agents):
        drawing.append(_disc(view, index, view.centre(agent.start)))
    return _svg(drawing)


def replay_svg(problem: Problem, plan: Plan, verdict: Verdict | None = None) -> str:
    """An endless replay of `plan`, which may be illegal: jumps glide, cells off the board are shown at its edge.

    With a failing `verdict` the replay ends at its step and marks its cell; a goal that is missed is marked after the last step.
    """
    frames = _frames(plan, verdict)
    outside = any(max(cell) >= problem.size for cells in frames.cells for cell in cells)
    view = _View(problem.size, _BOARD / (problem.size + outside))
    drawing = _drawing(problem, f"{problem.size}x{problem.size} board, replay of a plan for {problem.num_agents} agents")
    _draw_board(drawing, view, problem)
    for index, agent in enumerate(problem.agents):
        drawing.append(_start_mark(view, index, view.centre(agent.start)))
        drawing.append(_trail(view, index, problem.num_agents, [cells[index] for cells in frames.cells]))
    _draw_counter(drawing, frames)
    if verdict and verdict.category and verdict.cell is not None:
        _draw_failure(drawing, view, frames, verdict.cell, verdict.category)
    for index in range(problem.num_agents):
        track = [view.spot(cells, index) for cells in frames.cells]
        disc = _disc(view, index, track[-1])
        frames.animate_motion(disc, track)
        drawing.append(disc)
    return _svg(drawing)


@dataclass(frozen=True)
class _View:
    """Where cells lie in the drawing."""

    size: int
    cell: float

    def centre(self, cell: Cell) -> tuple[float, float]:
        """(x, y) of a cell's centre; a cell off the board is moved to just outside of its edge."""
        row, column = (min(max(float(value), -0.5), float(self.size)) for value in cell)
        return round(_LEFT + (column + 0.5) * self.cell, 2), round(_TOP + (row + 0.5) * self.cell, 2)

    def spot(self, cells: Sequence[Cell], index: int) -> tuple[float, float]:
        """(x, y) of an agent among all; agents in one cell stand side by side."""
        x, y = self.centre(cells[index])
        together = [other for other, cell in enumerate(cells) if cell == cells[index]]
        place = together.index(index) / (len(together) - 1) - 0.5 if len(together) > 1 else 0.0
        return round(x + place * 0.38 * self.cell, 2), y


@dataclass(frozen=True)
class _Frames:
    """The steps of a replay, `first` to `first + len(cells) - 1`, and when they happen."""

    first: int
    total: int
    """Steps of the whole plan."""
    cells: list[tuple[Cell, ...]]
    """Per step shown, the cell of every agent."""

    @property
    def duration(self) -> float:
        return _LEAD + (len(self.cells) - 1) * _STEP + _HOLD

    def departure(self, frame: int) -> float:
        """Share of the duration at which the agents set out for a frame."""
        return round((_LEAD + (frame - 1) * _STEP) / self.duration, 4) if frame else 0.0

    def arrival(self, frame: int) -> float:
        """Share of the duration at which the agents have reached a frame."""
        return round((_LEAD + (frame - 1) * _STEP + _GLIDE) / self.duration, 4) if frame else 0.0

    def animate_motion(self, element: drawsvg.Group, track: Sequence[tuple[float, float]]) -> None:
        """Let `element`, whose base transform is the last spot, glide along `track`."""
        if len(set(track)) == 1:
            return
        times, spots, splines = [0.0], [track[0]], []
        for frame in range(1, len(track)):
            if track[frame] != track[frame - 1]:
                times += [self.departure(frame), self.arrival(frame)]
                spots += [track[frame - 1], track[frame]]
                splines += ["0 0 1 1", "0.45 0 0.25 1"]
        values = ";".join(f"{x:g} {y:g}" for x, y in [*spots, track[-1]])
        easing = {"calcMode": "spline", "keySplines": ";".join([*splines, "0 0 1 1"])}
        element.append(drawsvg.AnimateTransform("translate", f"{self.duration:g}s", values, **easing, **_timing([*times, 1.0])))

    def animate_steps(self, element: drawsvg.DrawingBasicElement, attribute: str, values: Sequence[object], times: Sequence[float]) -> None:
        """Let an attribute jump from value to value."""
        element.append_anim(drawsvg.Animate(attribute, f"{self.duration:g}s", ";".join(map(str, values)), calcMode="discrete", **_timing(times)))


def _timing(times: Sequence[float]) -> dict[str, str]:
    return {"keyTimes": ";".join(f"{time:g}" for time in times), "repeatCount": "indefinite"}


def _frames(plan: Plan, verdict: Verdict | None) -> _Frames:
    """The steps to show: up to the failure, or all; every agent rests on its last cell."""
    total = max(map(len, plan)) - 1
    last = total
    if verdict is not None and verdict.step is not None and verdict.category is not FailureCategory.GOAL_NOT_REACHED:
        last = min(total, verdict.step)
    first = max(0, last - MAX_STEPS)
    return _Frames(first, total, [tuple(path[min(step, len(path) - 1)] for path in plan) for step in range(first, last + 1)])


def _drawing(problem: Problem, label: str) -> drawsvg.Drawing:
    return drawsvg.Drawing(_WIDTH, _HEIGHT, role="img", aria_label=label, font_family="system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif")


def _svg(drawing: drawsvg.Drawing) -> str:
    return str(drawing.as_svg(header=""))


def _draw_board(drawing: drawsvg.Drawing, view: _View, problem: Problem) -> None:
    """Ice, holes, coordinates, and the goals as rings."""
    side = round(view.cell * view.size, 2)
    drawing.append(drawsvg.Rectangle(_LEFT, _TOP, side, side, rx=4, fill=_ICE))
    lines = drawsvg.Path(stroke=_ICE_LINE, stroke_width=1, fill="none")
    for index in range(1, view.size):
        offset = round(index * view.cell, 2)
        lines.M(_LEFT, _TOP + offset).h(side).M(_LEFT + offset, _TOP).v(side)
    drawing.append(lines)
    for hole in problem.holes:
        x, y = view.centre(hole)
        half = round(view.cell / 2 - 1, 2)
        drawing.append(drawsvg.Rectangle(round(x - half, 2), round(y - half, 2), 2 * half, 2 * half, rx=min(6, round(view.cell * 0.14, 2)), fill=_HOLE))
    for index in range(view.size):
        x, y = view.centre((index, index))
        drawing.append(_text(str(index), x, _TOP - 10, 11, fill="currentColor", fill_opacity=0.6))
        drawing.append(_text(str(index), _LEFT - 12, y, 11, fill="currentColor", fill_opacity=0.6))
    for index, agent in enumerate(problem.agents):
        x, y = view.centre(agent.goal)
        drawing.append(drawsvg.Circle(x, y, round(view.cell * 0.4, 2), fill="none", stroke=AGENT_COLOURS[index], stroke_width=round(view.cell * 0.08, 2)))
        drawing.append(_text(str(index), x, y, round(view.cell * 0.32, 2), fill=_INK, fill_opacity=0.45, font_weight=700))


def _start_mark(view: _View, index: int, spot: tuple[float, float]) -> drawsvg.Circle:
    return drawsvg.Circle(*spot, round(view.cell * 0.3, 2), fill=AGENT_COLOURS[index], fill_opacity=0.22)


def _disc(view: _View, index: int, spot: tuple[float, float]) -> drawsvg.Group:
    """An agent: a numbered disc, placed by its transform."""
    group = drawsvg.Group(transform=f"translate({spot[0]:g} {spot[1]:g})")
    group.append(drawsvg.Circle(0, 0, round(view.cell * 0.3, 2), fill=AGENT_COLOURS[index], stroke="#FFFFFF", stroke_width=1.5))
    group.append(_text(str(index), 0, 0, round(view.cell * 0.32, 2), fill=_NUMBER_COLOURS[index], font_weight=700))
    return group


def _trail(view: _View, index: int, agents: int, path: Sequence[Cell]) -> drawsvg.Path:
    """The way an agent takes, drawn faintly and a little beside those of the others."""
    shift = (index - (agents - 1) / 2) * view.cell * 0.08
    trail = drawsvg.Path(fill="none", stroke=AGENT_COLOURS[index], stroke_opacity=0.55, stroke_width=2.5, stroke_linejoin="round", stroke_linecap="round")
    for position, (x, y) in enumerate(map(view.centre, path)):
        (trail.L if position else trail.M)(round(x + shift, 2), round(y + shift, 2))
    return trail


def _draw_counter(drawing: drawsvg.Drawing, frames: _Frames) -> None:
    """`step 3 of 7` under the board, one text a step, each visible in its turn."""
    last = len(frames.cells) - 1
    for frame in range(last + 1):
        text = _text(f"step {frames.first + frame} of {frames.total}", _LEFT, _HEIGHT - 13, 13, fill="currentColor", text_anchor="start", font_weight=600)
        if frame < last:
            text.args["visibility"] = "hidden"
        times, values = [frames.departure(frame), frames.departure(frame + 1)], ["visible", "hidden"]
        if frame == last:
            times, values = times[:1], values[:1]
        if times[0] > 0:
            times, values = [0.0, *times], ["hidden", *values]
        if last:
            frames.animate_steps(text, "visibility", values, times)
        drawing.append(text)


def _draw_failure(drawing: drawsvg.Drawing, view: _View, frames: _Frames, cell: Cell, category: FailureCategory) -> None:
    """A frame around the offending cell that flashes on arrival, and the category beside the counter."""
    x, y = view.centre(cell)
    half = round(view.cell * 0.5, 2)
    place = {"x": round(x - half, 2), "y": round(y - half, 2), "width": 2 * half, "height": 2 * half}
    mark = drawsvg.Group()
    mark.append(drawsvg.Rectangle(**place, rx=5, fill=FAILURE_COLOUR, fill_opacity=0.2, stroke="#FFFFFF", stroke_width=7))
    mark.append(drawsvg.Rectangle(**place, rx=5, fill="none", stroke=FAILURE_COLOUR, stroke_width=4))
    name = _text(category.value.replace("_", " "), _LEFT + _BOARD, _HEIGHT - 13, 13, fill=FAILURE_COLOUR, text_anchor="end", font_weight=700)
    arrival, beat = frames.arrival(len(frames.cells) - 1) or _LEAD / frames.duration, 0.28 / frames.duration
    times = [0.0, *(round(arrival + beats * beat, 4) for beats in range(5))]
    frames.animate_steps(mark, "opacity", [0, 1, 0.2, 1, 0.2, 1], times)
    frames.animate_steps(name, "opacity", [0, 1], times[:2])
    drawing.append(mark)
    drawing.append(name)


def _text(text: str, x: float, y: float, size: float, **style: object) -> drawsvg.DrawingBasicElement:
    return drawsvg.Text(text, size, x, y, **{"text_anchor": "middle", "dominant_baseline": "central", **style})
