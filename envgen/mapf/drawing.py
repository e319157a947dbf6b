"""What all drawings of boards share: measures, colours, and the marks for cells, goals and agents.

Colours by Okabe and Ito, which stay apart for colour-blind readers.
"""

from collections.abc import Sequence
from typing import NamedTuple

import drawsvg

from envgen.mapf.problem import Cell, Problem

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
AGENT_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9")
FAILURE_COLOUR = "#D55E00"
ICE, ICE_LINE, HOLE, INK = "#E7F0F7", "#C5D6E3", "#3A4754", "#1B1F24"
NUMBER_COLOURS = ("#FFFFFF", INK, "#FFFFFF", INK, INK)
WIDTH, HEIGHT, LEFT, TOP, BOARD = 374, 386, 40, 36, 320


class View(NamedTuple):
    """Where cells lie in the drawing."""

    size: int
    outside: bool = False
    """Whether cells off the board have to fit in too."""

    @property
    def cell(self) -> float:
        """Side of a cell."""
        return BOARD / (self.size + self.outside)

    def centre(self, cell: Cell, right: float = 0.0, down: float = 0.0) -> tuple[float, float]:
        """(x, y) of a cell's centre, or of a spot beside it, in cells.

        A cell off the board is moved to just outside of its edge.
        """
        row, column = (min(max(float(value), -0.5), float(self.size)) for value in cell)
        x, y = LEFT + (column + 0.5 + right) * self.cell, TOP + (row + 0.5 + down) * self.cell
        return round(x, 2), round(y, 2)

    def spot(self, cells: Sequence[Cell], index: int) -> tuple[float, float]:
        """(x, y) of an agent among all; agents in one cell stand side by side."""
        x, y = self.centre(cells[index])
        together = [other for other, cell in enumerate(cells) if cell == cells[index]]
        place = together.index(index) / (len(together) - 1) - 0.5 if len(together) > 1 else 0.0
        return round(x + place * 0.38 * self.cell, 2), y


def canvas(description: str) -> drawsvg.Drawing:
    """Return an empty drawing; screen readers say its description."""
    return drawsvg.Drawing(WIDTH, HEIGHT, role="img", aria_label=description, font_family=FONT)


def draw_board(drawing: drawsvg.Drawing, view: View, problem: Problem) -> None:
    """Ice, holes, coordinates, and the goals as rings."""
    side = round(view.cell * view.size, 2)
    drawing.append(drawsvg.Rectangle(LEFT, TOP, side, side, rx=4, fill=ICE))
    lines = drawsvg.Path(stroke=ICE_LINE, stroke_width=1, fill="none")
    for index in range(1, view.size):
        offset = round(index * view.cell, 2)
        lines.M(LEFT, TOP + offset).h(side).M(LEFT + offset, TOP).v(side)
    drawing.append(lines)
    corner = min(6, round(view.cell * 0.14, 2))
    for hole in problem.holes:
        drawing.append(square(view, hole, view.cell / 2 - 1, rx=corner, fill=HOLE))
    faint = {"fill": "currentColor", "fill_opacity": 0.6}
    middle = round(side / 2, 2)
    drawing.append(label("column", LEFT + middle, TOP - 24, 11, **faint))
    upwards = f"rotate(-90 {LEFT - 26} {TOP + middle})"
    drawing.append(label("row", LEFT - 26, TOP + middle, 11, transform=upwards, **faint))
    for index in range(view.size):
        x, y = view.centre((index, index))
        drawing.append(label(str(index), x, TOP - 10, 11, **faint))
        drawing.append(label(str(index), LEFT - 12, y, 11, **faint))
    for index, agent in enumerate(problem.agents):
        x, y = view.centre(agent.goal)
        radius, width = round(view.cell * 0.4, 2), round(view.cell * 0.08, 2)
        ring = drawsvg.Circle(x, y, radius, fill="none", stroke=AGENT_COLOURS[index], stroke_width=width)
        size = round(view.cell * 0.32, 2)
        number = label(str(index), x, y, size, fill=INK, fill_opacity=0.45, font_weight=700)
        drawing.extend([ring, number])


def square(view: View, cell: Cell, half: float, **style: object) -> drawsvg.Rectangle:
    """A square around the centre of a cell; `half` is half of its side."""
    x, y = view.centre(cell)
    half = round(half, 2)
    return drawsvg.Rectangle(round(x - half, 2), round(y - half, 2), 2 * half, 2 * half, **style)


def disc(view: View, index: int, spot: tuple[float, float]) -> drawsvg.Group:
    """An agent: a numbered disc, placed by its transform."""
    group = drawsvg.Group(transform=f"translate({spot[0]:g} {spot[1]:g})")
    radius, size = round(view.cell * 0.3, 2), round(view.cell * 0.32, 2)
    group.append(drawsvg.Circle(0, 0, radius, fill=AGENT_COLOURS[index], stroke="#FFFFFF", stroke_width=1.5))
    group.append(label(str(index), 0, 0, size, fill=NUMBER_COLOURS[index], font_weight=700))
    return group


def foot(text: str, anchor: str = "start", **style: object) -> drawsvg.DrawingBasicElement:
    """Text under the board, at its left edge, or with the anchor `end` at its right."""
    return label(text, LEFT + BOARD * (anchor == "end"), HEIGHT - 13, 13, text_anchor=anchor, **style)


def label(text: str, x: float, y: float, size: float, **style: object) -> drawsvg.DrawingBasicElement:
    """Text centred at a spot; `style` may say otherwise."""
    return drawsvg.Text(
        text, size, x, y, **{"text_anchor": "middle", "dominant_baseline": "central", **style}
    )
