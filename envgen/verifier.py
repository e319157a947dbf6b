"""Verdicts: is a plan valid, is it optimal, and if not, what went wrong first."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from envgen.parser import PlanParseError, parse_plan
from envgen.problem import Cell, Instance, Path, Plan, Problem, cell_text


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


class Verdict(BaseModel):
    """What the verifier says of one answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    valid: bool
    optimal: bool = False
    category: FailureCategory | None = None
    agent: int | None = None
    """First offending agent."""
    step: int | None = Field(default=None, ge=0)
    """First offending step; 0 is the start."""
    cell: Cell | None = None
    detail: str = ""
    """One sentence for people: what was found and what was expected."""
    sum_of_costs: int | None = None
    makespan: int | None = None


def verify(instance: Instance, completion: str) -> Verdict:
    """Verdict for a completion: parse it, check it, compare its cost with the optimum."""
    try:
        plan = parse_plan(completion, instance.problem.num_agents)
    except PlanParseError as error:
        return Verdict(valid=False, category=FailureCategory.PARSE_ERROR, detail=str(error))
    return verify_plan(instance.problem, plan, optimum=instance.solution.sum_of_costs)


def verify_plan(problem: Problem, plan: Plan, optimum: int | None = None) -> Verdict:
    """Verdict for a parsed plan. The earliest violation counts; in one step illegal moves come before holes before conflicts."""
    holes = set(problem.holes)
    for step in range(max(map(len, plan))):
        failure = _illegal_move(problem, plan, step) or _hole(plan, holes, step) or _conflict(plan, step)
        if failure:
            return failure
    for index, (agent, path) in enumerate(zip(problem.agents, plan, strict=True)):
        if path[-1] != agent.goal:
            return _failure(
                FailureCategory.GOAL_NOT_REACHED,
                index,
                len(path) - 1,
                path[-1],
                f"agent {index} ends at {cell_text(path[-1])}, its goal is {cell_text(agent.goal)}",
            )
    costs = [_last_arrival(path) for path in plan]
    return Verdict(valid=True, optimal=optimum is not None and sum(costs) == optimum, sum_of_costs=sum(costs), makespan=max(costs))


def _last_arrival(path: Path) -> int:
    """Steps until the path enters its last cell for the last time."""
    step = len(path) - 1
    while step and path[step - 1] == path[-1]:
        step -= 1
    return step


def _illegal_move(problem: Problem, plan: Plan, step: int) -> Verdict | None:
    for index, path in enumerate(plan):
        if step >= len(path):
            continue
        cell, name = path[step], f"agent {index}"
        if step == 0:
            start = problem.agents[index].start
            wrong = cell != start and f"{name} begins at {cell_text(cell)}, its start is {cell_text(start)}"
        elif not (0 <= cell[0] < problem.size and 0 <= cell[1] < problem.size):
            wrong = f"{name} leaves the {problem.size}x{problem.size} grid to {cell_text(cell)}"
        else:
            before = path[step - 1]
            far = abs(cell[0] - before[0]) + abs(cell[1] - before[1]) > 1
            wrong = far and f"{name} jumps from {cell_text(before)} to {cell_text(cell)}, which is no neighbour"
        if wrong:
            return _failure(FailureCategory.ILLEGAL_MOVE, index, step, cell, wrong)
    return None


def _hole(plan: Plan, holes: set[Cell], step: int) -> Verdict | None:
    for index, path in enumerate(plan):
        if step < len(path) and path[step] in holes:
            return _failure(FailureCategory.HOLE_COLLISION, index, step, path[step], f"agent {index} enters the hole {cell_text(path[step])}")
    return None


def _conflict(plan: Plan, step: int) -> Verdict | None:
    now = [path[min(step, len(path) - 1)] for path in plan]
    before = [path[min(max(step - 1, 0), len(path) - 1)] for path in plan]
    for index, cell in enumerate(now):
        for other in range(index):
            if now[other] == cell:
                return _failure(FailureCategory.CONFLICT, index, step, cell, f"agents {other} and {index} are both in {cell_text(cell)} after step {step}")
            if now[other] == before[index] and before[other] == cell:
                return _failure(
                    FailureCategory.CONFLICT,
                    index,
                    step,
                    cell,
                    f"agents {other} and {index} swap {cell_text(before[other])} and {cell_text(before[index])} in step {step}",
                )
    return None


def _failure(category: FailureCategory, agent: int, step: int, cell: Cell, detail: str) -> Verdict:
    return Verdict(valid=False, category=category, agent=agent, step=step, cell=cell, detail=detail)
