"""Boards and replays of plans as SVG for people: no script, no external resource, animated by SMIL.

A replay runs up to the step that the verdict names, marks the offending cell, holds, and starts again. A
viewer without animation shows its end. Colours by Okabe and Ito, which stay apart for colour-blind readers.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from envgen.mapf.problem import Cell, Plan, Problem
from envgen.mapf.verifier import FailureCategory, Verdict, trace

MAX_STEPS = 40
"""Steps shown at most: the last ones before the end of the replay."""
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
AGENT_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9")
FAILURE_COLOUR = "#D55E00"
ICE, ICE_LINE, HOLE, INK = "#E7F0F7", "#C5D6E3", "#3A4754", "#1B1F24"
NUMBER_COLOURS = ("#FFFFFF", INK, "#FFFFFF", INK, INK)
WIDTH, HEIGHT, LEFT, TOP, BOARD = 374, 386, 40, 36, 320
_LEAD, _GLIDE, _PAUSE, _HOLD = 0.8, 0.5, 0.3, 2.6
_STEP = _GLIDE + _PAUSE

Spot = tuple[float, float]
"""x and y."""


def board_svg(problem: Problem) -> str:
    """Return a board as it is posed: holes, starts and goals."""
    view = View(problem.size)
    discs = [view.disc(index, view.centre(agent.start)) for index, agent in enumerate(problem.agents)]
    return _svg(f"board, {problem.num_agents} agents at their starts", view, problem, discs)


def replay_svg(problem: Problem, plan: Plan, verdict: Verdict | None = None) -> str:
    """Return an endless replay of `plan`, which may be illegal: cells off the board are drawn at its edge.

    With a failing `verdict` the replay ends at its step and marks its cell; a goal that is missed is marked
    after the last step. The group `still`, which is hidden, shows the end without animation: a page may show
    it in place of the group `moving`.
    """
    steps = trace(plan, verdict)
    first = max(0, len(steps) - 1 - MAX_STEPS)
    frames = Frames(first, max(map(len, plan)) - 1, steps[first:])
    view = View(problem.size, any(max(cell) >= problem.size for cells in frames.cells for cell in cells))
    trails, last = [], frames.first + len(frames.cells) - 1
    moving, still = frames.counter(), [_foot(f"end: step {last} of {frames.total}", font_weight=600)]
    if verdict and verdict.category and verdict.cell is not None:
        still += view.failure(verdict.cell, verdict.category)
        moving += view.failure(verdict.cell, verdict.category, frames.appearance())
    for index, agent in enumerate(problem.agents):
        beside = (index - (problem.num_agents - 1) / 2) * 0.08  # trails lie side by side
        colour, start = AGENT_COLOURS[index], view.centre(agent.start)
        trails.append(_circle(start, view.cell * 0.3, fill=colour, fill_opacity=0.22))
        points = "L".join(f"{x},{y}" for x, y in (view.centre(c[index], beside) for c in frames.cells))
        style = {"stroke_opacity": 0.55, "stroke_width": 2.5, "stroke_linejoin": "round"}
        style |= {"d": f"M{points}", "fill": "none", "stroke": colour, "stroke_linecap": "round"}
        trails.append(_tag("path", **style))
        track = [view.spot(cells, index) for cells in frames.cells]
        still.append(view.disc(index, track[-1]))
        moving.append(view.disc(index, track[-1], frames.motion(track)))
    groups = [_tag("g", *moving, class_="moving"), _tag("g", *still, class_="still", display="none")]
    title = f"board, replay of a plan for {problem.num_agents} agents"
    return _svg(title, view, problem, [*trails, *groups])


class View(NamedTuple):
    """Places of cells in the drawing, and the marks on them."""

    size: int
    outside: bool = False
    """Whether cells off the board have to fit in too."""

    @property
    def cell(self) -> float:
        """Side of a cell."""
        return BOARD / (self.size + self.outside)

    def centre(self, cell: Cell, beside: float = 0.0) -> Spot:
        """Return a cell's centre, or a spot right of and below it, in cells; cells off the board are moved to
        just outside of its edge."""
        row, column = (min(max(float(value), -0.5), float(self.size)) + 0.5 + beside for value in cell)
        return round(LEFT + column * self.cell, 2), round(TOP + row * self.cell, 2)

    def spot(self, cells: Sequence[Cell], index: int) -> Spot:
        """Return the spot of an agent among all; agents in one cell stand side by side."""
        x, y = self.centre(cells[index])
        together = [other for other, cell in enumerate(cells) if cell == cells[index]]
        place = together.index(index) / (len(together) - 1) - 0.5 if len(together) > 1 else 0.0
        return round(x + place * 0.38 * self.cell, 2), y

    def square(self, cell: Cell, half: float, *inside: str, **style: object) -> str:
        """Return a square around the centre of a cell; `half` is half of its side."""
        x, y = self.centre(cell)
        return _tag("rect", *inside, x=x - half, y=y - half, width=2 * half, height=2 * half, **style)

    def disc(self, index: int, spot: Spot, motion: str = "") -> str:
        """Return an agent: a numbered disc, placed by its transform."""
        disc = _circle((0, 0), self.cell * 0.3, fill=AGENT_COLOURS[index], stroke="#FFFFFF", stroke_width=1.5)
        number = _text(str(index), (0, 0), self.cell * 0.32, fill=NUMBER_COLOURS[index], font_weight=700)
        return _tag("g", disc, number, motion, transform=f"translate({spot[0]:g} {spot[1]:g})")

    def failure(self, cell: Cell, category: FailureCategory, animation: str = "") -> list[str]:
        """Return a frame around the offending cell, and the category beside the counter."""
        pale = {"fill": FAILURE_COLOUR, "fill_opacity": 0.2, "stroke": "#FFFFFF", "stroke_width": 7}
        frame = {"fill": "none", "stroke": FAILURE_COLOUR, "stroke_width": 4}
        squares = [self.square(cell, self.cell / 2, rx=5, **style) for style in (pale, frame)]
        spot, style = (LEFT + BOARD, HEIGHT - 13), {"fill": FAILURE_COLOUR, "font_weight": 700}
        name = _text(category.replace("_", " "), spot, 13, animation, text_anchor="end", **style)
        return [_tag("g", *squares, animation), name]

    def board(self, problem: Problem) -> list[str]:
        """Return ice, holes, coordinates, and the goals as rings."""
        side, faint = self.cell * self.size, {"fill": "currentColor", "fill_opacity": 0.6}
        offsets = [round(index * self.cell, 2) for index in range(1, self.size)]
        lines = "".join(f"M{LEFT},{TOP + o:g}h{side:g}M{LEFT + o:g},{TOP}v{side:g}" for o in offsets)
        middle, corner = (LEFT - 26, TOP + side / 2), min(6.0, self.cell * 0.14)
        upwards = f"rotate(-90 {middle[0]} {middle[1]:g})"
        elements = [
            _tag("rect", x=LEFT, y=TOP, width=side, height=side, rx=4, fill=ICE),
            _tag("path", d=lines, stroke=ICE_LINE, stroke_width=1, fill="none"),
            *(self.square(hole, self.cell / 2 - 1, rx=corner, fill=HOLE) for hole in problem.holes),
            _text("column", (LEFT + side / 2, TOP - 24), 11, **faint),
            _text("row", middle, 11, transform=upwards, **faint),
        ]
        for index in range(self.size):
            x, y = self.centre((index, index))
            elements.append(_text(str(index), (x, TOP - 10), 11, **faint))
            elements.append(_text(str(index), (LEFT - 12, y), 11, **faint))
        pale = {"fill": INK, "fill_opacity": 0.45, "font_weight": 700}
        for index, agent in enumerate(problem.agents):
            spot, ring = self.centre(agent.goal), {"stroke": AGENT_COLOURS[index], "fill": "none"}
            elements.append(_circle(spot, self.cell * 0.4, stroke_width=self.cell * 0.08, **ring))
            elements.append(_text(str(index), spot, self.cell * 0.32, **pale))
        return elements


class Frames(NamedTuple):
    """The steps of a replay, `first` to `first + len(cells) - 1`, and when they happen."""

    first: int
    total: int
    """Steps of the whole plan."""
    cells: Sequence[tuple[Cell, ...]]
    """Per step shown, the cell of every agent."""

    def departure(self, frame: int, later: float = 0.0) -> float:
        """Return the share of the replay at which the agents set out for a frame, or some seconds later."""
        return round((_LEAD + (frame - 1) * _STEP + later) / self._seconds, 4) if frame else 0.0

    @property
    def _seconds(self) -> float:
        return _LEAD + (len(self.cells) - 1) * _STEP + _HOLD

    def motion(self, track: Sequence[Spot]) -> str:
        """Return an animation that glides along the spots of all frames and rests between two steps."""
        values = [(0.0, track[0])]
        for frame, (before, spot) in enumerate(pairwise(track), start=1):
            values += [(self.departure(frame), before), (self.departure(frame, _GLIDE), spot)]
        spots = [(time, f"{x:g} {y:g}") for time, (x, y) in [*values, (1.0, track[-1])]]
        easing = {"calcMode": "spline", "keySplines": ";".join(["0.45 0 0.25 1"] * (len(spots) - 1))}
        return self._animate("animateTransform", "transform", spots, type="translate", **easing)

    def counter(self) -> list[str]:
        """Return `step 3 of 7` under the board, one text a step, each visible in its turn."""
        texts, last = [], len(self.cells) - 1
        for frame in range(last + 1):
            visible = {0.0: "hidden", self.departure(frame): "visible"}
            visible |= {self.departure(frame + 1): "hidden"} if frame < last else {}
            animation = self._animate("animate", "visibility", visible.items(), calcMode="discrete")
            hidden = {"visibility": "hidden"} if frame < last else {}
            text = f"step {self.first + frame} of {self.total}"
            texts.append(_foot(text, animation, font_weight=600, **hidden))
        return texts

    def appearance(self) -> str:
        """Return an animation that shows a failure when the agents arrive at its step."""
        arrival = self.departure(len(self.cells) - 1, _GLIDE) or round(_LEAD / self._seconds, 4)
        return self._animate("animate", "opacity", [(0.0, 0), (arrival, 1)], calcMode="discrete")

    def _animate(self, name: str, attribute: str, values: Iterable[tuple[float, object]], **more: str) -> str:
        """Return an endless animation of an attribute through values at shares of the replay."""
        times, texts = zip(*((f"{time:g}", str(value)) for time, value in values), strict=True)
        timing = {"dur": f"{self._seconds:g}s", "keyTimes": ";".join(times), "values": ";".join(texts)}
        return _tag(name, attributeName=attribute, **timing, **more, repeatCount="indefinite")


def _svg(title: str, view: View, problem: Problem, elements: list[str]) -> str:
    """Return a drawing of a board with more elements; screen readers say its title."""
    style = {"width": WIDTH, "height": HEIGHT, "viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img"}
    style |= {"aria_label": f"{problem.size}x{problem.size} {title}", "font_family": FONT}
    return _tag("svg", *view.board(problem), *elements, xmlns="http://www.w3.org/2000/svg", **style)


def _foot(text: str, *inside: str, **style: object) -> str:
    """Return a text under the board, at its left edge."""
    style = {"text_anchor": "start", "fill": "currentColor", **style}
    return _text(text, (LEFT, HEIGHT - 13), 13, *inside, **style)


def _text(text: str, spot: Spot, size: float, *inside: str, **style: object) -> str:
    centred = {"text_anchor": "middle", "dominant_baseline": "central"}
    return _tag("text", text, *inside, x=spot[0], y=spot[1], font_size=size, **{**centred, **style})


def _circle(spot: Spot, radius: float, **style: object) -> str:
    return _tag("circle", cx=spot[0], cy=spot[1], r=radius, **style)


def _tag(name: str, *inside: str, **attributes: object) -> str:
    """Return an element; underscores in names of attributes stand for hyphens. Nothing is escaped: texts are
    ours, and numbers."""
    values = {k: f"{round(v, 2):g}" if isinstance(v, float) else v for k, v in attributes.items()}
    listed = "".join(f' {key.rstrip("_").replace("_", "-")}="{value}"' for key, value in values.items())
    return f"<{name}{listed}>{''.join(inside)}</{name}>\n"
