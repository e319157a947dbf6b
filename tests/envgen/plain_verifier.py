"""The rules of plans and of answers step by step in plain Python: what the verifier's compiled batches have
to agree with."""

import re

from envgen.mapf.parser import MAX_CELLS, MAX_CHARACTERS, PlanParseError
from envgen.mapf.problem import Cell, Path, Plan, Problem, cell_text
from envgen.mapf.verifier import FailureCategory, Verdict

_AGENT_LINE = re.compile(
    r"[ \t]*Agent[ \t]+([0-9]):((?:[ \t]*\([ \t]*[0-9]{1,3}[ \t]*,[ \t]*[0-9]{1,3}["
    rf" \t]*\)){{1,{MAX_CELLS}}})[ \t\r]*"
)
_CELL = re.compile(r"([0-9]+)[ \t]*,[ \t]*([0-9]+)")


def expected_plan(completion: str, num_agents: int) -> Plan:
    """What `parse_plan` has to return or raise."""
    block: dict[int, str] = {}
    for line in reversed(completion[-MAX_CHARACTERS:].split("\n")):
        match = _AGENT_LINE.fullmatch(line)
        if match and int(match[1]) in block:
            break
        if match:
            block[int(match[1])] = match[2]
        elif block and line.strip():
            break
    if not block:
        raise PlanParseError("no line of the form 'Agent 0: (r,c) (r,c)' found")
    missing = sorted(set(range(num_agents)) - set(block))
    unknown = sorted(set(block) - set(range(num_agents)))
    if missing:
        raise PlanParseError(f"no line for agent {missing[0]} in the last block")
    if unknown:
        raise PlanParseError(f"a line for agent {unknown[0]}, but there are {num_agents} agents")
    return tuple(
        tuple((int(r), int(c)) for r, c in _CELL.findall(block[agent])) for agent in range(num_agents)
    )


def expected_verdict(problem: Problem, plan: Plan, optimum: int | None = None) -> Verdict:
    """What `verify_plan` has to say."""
    ends = [path[-1] == agent.goal for path, agent in zip(plan, problem.agents, strict=True)]
    verdict = _first_failure(problem, plan, optimum)
    last = max(map(len, plan)) - 1
    if verdict.valid:
        legal = verdict.makespan
    elif verdict.category is FailureCategory.GOAL_NOT_REACHED:
        legal = last
    else:
        legal = max(verdict.step - 1, 0)
    whole = verdict.valid or verdict.category is FailureCategory.GOAL_NOT_REACHED
    share = 1.0 if whole else legal / max(last, 1)
    return verdict.model_copy(
        update={"arrived": sum(ends) / len(ends), "legal_steps": legal, "legal_share": share}
    )


def _first_failure(problem: Problem, plan: Plan, optimum: int | None) -> Verdict:
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
    return Verdict(
        valid=True,
        optimal=optimum is not None and sum(costs) == optimum,
        sum_of_costs=sum(costs),
        makespan=max(costs),
    )


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
            wrong = (
                far and f"{name} jumps from {cell_text(before)} to {cell_text(cell)}, which is no neighbour"
            )
        if wrong:
            return _failure(FailureCategory.ILLEGAL_MOVE, index, step, cell, wrong)
    return None


def _hole(plan: Plan, holes: set[Cell], step: int) -> Verdict | None:
    for index, path in enumerate(plan):
        if step < len(path) and path[step] in holes:
            return _failure(
                FailureCategory.HOLE_COLLISION,
                index,
                step,
                path[step],
                f"agent {index} enters the hole {cell_text(path[step])}",
            )
    return None


def _conflict(plan: Plan, step: int) -> Verdict | None:
    now = [path[min(step, len(path) - 1)] for path in plan]
    before = [path[min(max(step - 1, 0), len(path) - 1)] for path in plan]
    for index, cell in enumerate(now):
        for other in range(index):
            if now[other] == cell:
                return _failure(
                    FailureCategory.CONFLICT,
                    index,
                    step,
                    cell,
                    f"agents {other} and {index} are both in {cell_text(cell)} after step {step}",
                )
            if now[other] == before[index] and before[other] == cell:
                return _failure(
                    FailureCategory.CONFLICT,
                    index,
                    step,
                    cell,
                    f"agents {other} and {index} swap {cell_text(before[other])} and"
                    f" {cell_text(before[index])} in step {step}",
                )
    return None


def _failure(category: FailureCategory, agent: int, step: int, cell: Cell, detail: str) -> Verdict:
    return Verdict(valid=False, category=category, agent=agent, step=step, cell=cell, detail=detail)
