"""Verdicts on answers: valid, optimal, or which rule the plan breaks first."""

from collections.abc import Iterator
from enum import StrEnum
from itertools import takewhile

from pydantic import Field

from envgen.frozen import Frozen
from envgen.mapf.parser import PlanParseError, parse_plan
from envgen.mapf.problem import Cell, Instance, Plan, Problem, cell_text


class FailureCategory(StrEnum):
    """What an invalid answer got wrong first."""

    PARSE_ERROR = "parse_error"
    """No plan could be read."""
    ILLEGAL_MOVE = "illegal_move"
    """An agent starts elsewhere, jumps, or leaves the grid."""
    HOLE_COLLISION = "hole_collision"
    """An agent enters a hole."""
    CONFLICT = "conflict"
    """Two agents are in one cell after a step, or swap cells in a step."""
    GOAL_NOT_REACHED = "goal_not_reached"
    """Every step is legal, but an agent does not end on its goal."""


class Verdict(Frozen):
    """Judgement of one answer; measures of partial progress default to the best or worst answer."""

    valid: bool
    optimal: bool = False
    category: FailureCategory | None = None
    agent: int | None = None
    """First offending agent."""
    step: int | None = Field(default=None, ge=0)
    """First offending step; 0 is the start."""
    cell: Cell | None = None
    detail: str = ""
    """One sentence for people: the violation and what was expected."""
    sum_of_costs: int | None = None
    makespan: int | None = None
    arrived: float = Field(default_factory=lambda fields: float(fields["valid"]), ge=0, le=1)
    """Share of agents whose path ends on their goal, however it got there; 0 if no plan could be read."""
    legal_share: float = Field(default_factory=lambda fields: float(fields["valid"]), ge=0, le=1)
    """Steps before the first violation as a share of the plan's length; 0 if no plan could be read."""

    @property
    def terms(self) -> dict[str, float]:
        """Partial progress by name, which a reward may pay for."""
        return {"arrived": self.arrived, "legal_share": self.legal_share}


def verify(instance: Instance, completion: str) -> Verdict:
    """Return the verdict on a completion: parse it, check its plan, compare its cost with the optimum."""
    try:
        plan = parse_plan(completion, len(instance.problem.agents))
    except PlanParseError as error:
        return Verdict(valid=False, category=FailureCategory.PARSE_ERROR, detail=str(error))
    return verify_plan(instance.problem, plan, instance.solution.sum_of_costs)


def verify_plan(problem: Problem, plan: Plan, optimum: int | None = None) -> Verdict:
    """Return the verdict on a plan; without an `optimum` none is optimal.

    The earliest violation counts; within one step illegal moves come before holes before conflicts.
    ValueError unless the plan holds one path for each agent, each of at least one cell.
    """
    if len(plan) != len(problem.agents) or not all(plan):
        raise ValueError(f"{len(plan)} paths for {len(problem.agents)} agents; a plan has one path an agent")
    length = max(map(len, plan)) - 1
    arrived = sum(path[-1] == agent.goal for path, agent in zip(plan, problem.agents, strict=True))
    arrived /= len(plan)
    for category, agent, step, cell, detail in _violations(problem, plan, length):
        violation = {"category": category, "agent": agent, "step": step, "cell": cell, "detail": detail}
        missed = category is FailureCategory.GOAL_NOT_REACHED
        legal = 1.0 if missed else max(step - 1, 0) / max(length, 1)
        return Verdict(valid=False, **violation, arrived=arrived, legal_share=legal)
    # Steps until a path enters its last cell for the last time.
    costs = [len(path) - len([*takewhile(path[-1].__eq__, reversed(path))]) for path in plan]
    return Verdict(valid=True, optimal=sum(costs) == optimum, sum_of_costs=sum(costs), makespan=max(costs))


def trace(plan: Plan, verdict: Verdict | None) -> tuple[tuple[Cell, ...], ...]:
    """Return the cells of all agents at the start and after each step, up to the verdict's violation, if any.
    Agents that have stopped rest on their last cell."""
    last = max(map(len, plan)) - 1
    if verdict and verdict.step is not None and verdict.category is not FailureCategory.GOAL_NOT_REACHED:
        last = min(last, verdict.step)
    return tuple(_cells_at(plan, step) for step in range(last + 1))


def _cells_at(plan: Plan, step: int) -> tuple[Cell, ...]:
    return tuple(path[min(step, len(path) - 1)] for path in plan)


def _violations(
    problem: Problem, plan: Plan, length: int
) -> Iterator[tuple[FailureCategory, int, int, Cell, str]]:
    """Yield category, agent, step, cell and detail of each violation in turn, missed goals last."""
    for step in range(length + 1):
        moving = [
            (index, path[max(step - 1, 0)], path[step]) for index, path in enumerate(plan) if step < len(path)
        ]
        for index, origin, cell in moving:
            if detail := _illegal(problem, step, problem.agents[index].start, origin, cell):
                yield FailureCategory.ILLEGAL_MOVE, index, step, cell, f"agent {index} {detail}"
        for index, _, cell in moving:
            if cell in problem.holes:
                detail = f"agent {index} enters the hole {cell_text(cell)}"
                yield FailureCategory.HOLE_COLLISION, index, step, cell, detail
        before, after = _cells_at(plan, max(step - 1, 0)), _cells_at(plan, step)
        for index, other in ((i, j) for i in range(len(plan)) for j in range(i)):
            cell, agents = after[index], f"agents {other} and {index}"
            if after[other] == cell:
                detail = f"{agents} are both in {cell_text(cell)} after step {step}"
                yield FailureCategory.CONFLICT, index, step, cell, detail
            elif after[other] == before[index] and before[other] == cell:
                cells = f"{cell_text(cell)} and {cell_text(before[index])}"
                yield FailureCategory.CONFLICT, index, step, cell, f"{agents} swap {cells} in step {step}"
    for index, (agent, path) in enumerate(zip(problem.agents, plan, strict=True)):
        if path[-1] != agent.goal:
            detail = f"agent {index} ends at {cell_text(path[-1])}, its goal is {cell_text(agent.goal)}"
            yield FailureCategory.GOAL_NOT_REACHED, index, len(path) - 1, path[-1], detail


def _illegal(problem: Problem, step: int, start: Cell, origin: Cell, cell: Cell) -> str:
    """Return why a move is illegal; empty for a legal one."""
    if step == 0:
        return f"begins at {cell_text(cell)}, its start is {cell_text(start)}" if cell != start else ""
    if not (min(cell) >= 0 and max(cell) < problem.size):
        return f"leaves the {problem.size}x{problem.size} grid to {cell_text(cell)}"
    if abs(cell[0] - origin[0]) + abs(cell[1] - origin[1]) > 1:
        return f"jumps from {cell_text(origin)} to {cell_text(cell)}, which is no neighbour"
    return ""
