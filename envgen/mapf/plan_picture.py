"""A plan, or how it failed, as a still SVG or PNG: paths with the step at which each cell is entered."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import drawsvg
import resvg_py

from envgen.mapf.drawing import (
    AGENT_COLOURS,
    BOARD,
    FAILURE_COLOUR,
    NUMBER_COLOURS,
    View,
    as_svg,
    canvas,
    disc,
    draw_board,
    foot,
    label,
    square,
    trail,
)
from envgen.mapf.problem import Cell, Plan, Problem
from envgen.mapf.render import frames_of
from envgen.mapf.verifier import Verdict

_MARK = 0.24
"""Height of a step mark, in cells."""
_LANES = ((-0.24, -0.24), (0.24, 0.24), (-0.37, 0.37), (0.37, -0.37), (0.16, -0.16))
"""Where an agent's trail and marks lie beside the centre of a cell, in cells right and down.

They are off the number there, and no two in line.
"""


def still_svg(problem: Problem, plan: Plan, verdict: Verdict) -> str:
    """`plan` with its step marks, and below it what the verdict says.

    A mark in a cell holds the steps after which its agent is there: `3`, or `3–5` where it waits. A failing
    plan is drawn up to the step of the failure, whose cell is framed; of a plan above 40 steps the last 40
    before that are drawn.
    """
    frames = frames_of(plan, verdict)
    outside = any(max(cell) >= problem.size for cells in frames.cells for cell in cells)
    view = View(problem.size, BOARD / (problem.size + outside))
    drawing = canvas(
        f"{problem.size}x{problem.size} board, plan for {problem.num_agents} agents", verdict.reason
    )
    draw_board(drawing, view, problem)
    paths = [_until_arrival([cells[index] for cells in frames.cells]) for index in range(problem.num_agents)]
    for index, path in enumerate(paths):
        spots = [view.centre(path[0]), *(view.centre(cell, *_LANES[index]) for cell in path[1:])]
        drawing.append(trail(index, spots, opacity=0.9))
    for index, path in enumerate(paths):
        drawing.append(disc(view, index, view.centre(path[0])))
    if verdict.cell is not None:
        frame = {"fill": FAILURE_COLOUR, "fill_opacity": 0.15, "stroke": FAILURE_COLOUR, "stroke_width": 3}
        drawing.append(square(view, verdict.cell, view.cell * 0.5, rx=5, **frame))
    for index, path in enumerate(paths):
        _draw_marks(drawing, view, index, path, frames.first)
    head = verdict.outcome if verdict.step is None else f"{verdict.outcome} of {frames.total}"
    colour = FAILURE_COLOUR if verdict.category else "currentColor"
    drawing.append(foot(head, fill=colour, font_weight=700))
    return as_svg(drawing)


def to_png(svg: str, zoom: int = 3) -> bytes:
    """A still SVG as PNG on white, `zoom` pixels a unit.

    The letters are those of DejaVu Sans, so that every machine draws the same.
    """
    import matplotlib

    fonts = Path(matplotlib.get_data_path(), "fonts", "ttf")
    files = [str(fonts / name) for name in ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf")]
    return bytes(
        resvg_py.svg_to_bytes(
            svg_string=svg,
            background="#FFFFFF",
            zoom=zoom,
            skip_system_fonts=True,
            font_files=files,
            sans_serif_family="DejaVu Sans",
        )
    )


def _until_arrival(path: Sequence[Cell]) -> list[Cell]:
    """The path without the rest at its end."""
    end = len(path)
    while end > 1 and path[end - 2] == path[end - 1]:
        end -= 1
    return list(path[:end])


def _draw_marks(drawing: drawsvg.Drawing, view: View, index: int, path: Sequence[Cell], first: int) -> None:
    """A pill in each cell of a path with the steps spent there; a start that is left at once has none."""
    step, visits = first, {}
    for cell, run in groupby(path):
        last = step + len(list(run)) - 1
        if last > 0:
            visits.setdefault(cell, []).append(str(step) if step == last else f"{step}–{last}")
        step = last + 1
    height = round(view.cell * _MARK, 2)
    for cell, steps in visits.items():
        text = ",".join(steps[:3]) + ("…" if len(steps) > 3 else "")
        x, y = view.centre(cell, *_LANES[index])
        width = round(height * max(1.0, 0.35 + 0.5 * len(text)), 2)
        left, top = round(x - width / 2, 2), round(y - height / 2, 2)
        colours = {"fill": AGENT_COLOURS[index], "stroke": "#FFFFFF", "stroke_width": 0.6}
        drawing.append(drawsvg.Rectangle(left, top, width, height, rx=height / 2, **colours))
        size = round(height * 0.75, 2)
        drawing.append(label(text, x, y, size, fill=NUMBER_COLOURS[index], font_weight=700))
