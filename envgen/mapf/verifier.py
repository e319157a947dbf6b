"""Verdicts: is a plan valid, is it optimal, and if not, what went wrong first; batches by compiled code."""

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from pydantic import Field

from envgen.frozen import Frozen
from envgen.mapf.judgement import Finding, Judgement
from envgen.mapf.judging import Plans, boards_of, cells_of, judge, read_cells
from envgen.mapf.parser import PlanParseError, plan_lines
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
    """What the verifier says of one answer.

    The measures of partial progress default to those of the best or worst answer.
    """

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
    arrived: float = Field(default_factory=lambda given: float(given["valid"]), ge=0, le=1)
    """Share of agents whose path ends on their goal, however it got there; 0 if no plan could be read."""
    legal_steps: int = Field(default_factory=lambda given: given["makespan"] or 0, ge=0)
    """Steps before the first violation.

    Of a valid plan its makespan, of one that only misses a goal its whole length.
    """
    legal_share: float = Field(default_factory=lambda given: float(given["valid"]), ge=0, le=1)
    """The same as a share of the plan's length.

    1 without a violation, 0 if the start is wrong or no plan could be read.
    """

    @property
    def terms(self) -> dict[str, float]:
        """The two shares, which a reward may pay for."""
        return {"arrived": self.arrived, "legal_share": self.legal_share}

    @property
    def outcome(self) -> str:
        """A few words for people: `optimal plan`, `valid plan`, or what went wrong first and when.

        The last as in `conflict in step 3`.
        """
        if self.category is None:
            return "optimal plan" if self.optimal else "valid plan"
        at = "by" if self.category is FailureCategory.GOAL_NOT_REACHED else "in"
        return self.category.replace("_", " ") + ("" if self.step is None else f" {at} step {self.step}")

    @property
    def reason(self) -> str:
        """The rest of the sentence: the costs, or the detail."""
        return self.detail if self.category else f"sum of costs {self.sum_of_costs}, makespan {self.makespan}"


def verify(instance: Instance, completion: str) -> Verdict:
    """Verdict for a completion: parse it, check it, compare its cost with the optimum."""
    return verify_batch([instance], [completion])[0]


def verify_batch(instances: Sequence[Instance], completions: Sequence[str]) -> list[Verdict]:
    """Verdicts for as many completions as instances, in order; ValueError if their numbers differ.

    Faster where one `Instance` object stands for many completions.
    """
    verdicts: dict[int, Verdict] = {}
    paths: list[str] = []
    readable: list[int] = []
    for index, (instance, completion) in enumerate(zip(instances, completions, strict=True)):
        try:
            paths += plan_lines(completion, len(instance.problem.agents))
            readable.append(index)
        except PlanParseError as error:
            verdicts[index] = Verdict(valid=False, category=FailureCategory.PARSE_ERROR, detail=str(error))
    if readable:
        problems = [instances[index].problem for index in readable]
        optima = [instances[index].solution.sum_of_costs for index in readable]
        verdicts |= zip(readable, _judged(problems, optima, *read_cells(paths)), strict=True)
    return [verdicts[index] for index in range(len(instances))]


def verify_plan(problem: Problem, plan: Plan, optimum: int | None = None) -> Verdict:
    """Verdict for a parsed plan.

    The earliest violation counts; in one step illegal moves come before holes before conflicts. ValueError if
    the plan does not hold one path an agent, each of at least one cell.
    """
    return _judged([problem], [-1 if optimum is None else optimum], *cells_of(plan))[0]


def trace(plan: Plan, verdict: Verdict | None) -> tuple[tuple[Cell, ...], ...]:
    """The cells of all agents at the start and after each step, up to the first violation, else to the end.

    The violation is the one that `verdict` names. Agents that have stopped rest on their last cell.
    """
    last = max(map(len, plan)) - 1
    if verdict and verdict.step is not None and verdict.category is not FailureCategory.GOAL_NOT_REACHED:
        last = min(last, verdict.step)
    return tuple(tuple(path[min(step, len(path) - 1)] for path in plan) for step in range(last + 1))


def _judged(
    problems: Sequence[Problem], optima: Sequence[int], stops: np.ndarray, cells: np.ndarray
) -> list[Verdict]:
    boards, rows = boards_of(problems)
    found = judge(boards, Plans(rows, np.array(optima, np.int64), stops, cells)).tolist()
    return [_verdict(*pair) for pair in zip(problems, map(Judgement._make, found), strict=True)]


def _verdict(problem: Problem, found: Judgement) -> Verdict:
    progress = {"arrived": found.arrived / len(problem.agents), "legal_steps": found.legal_steps}
    if not found.finding:
        return Verdict(
            valid=True,
            optimal=bool(found.optimal),
            sum_of_costs=found.sum_of_costs,
            makespan=found.makespan,
            legal_share=1.0,
            **progress,
        )
    category, sentence = _FINDINGS[found.finding]
    cell = found.row, found.column
    share = found.legal_steps / found.steps if found.steps else 0.0
    return Verdict(
        valid=False,
        category=category,
        agent=found.agent,
        step=found.step,
        cell=cell,
        detail=sentence.format(
            agent=found.agent,
            other=found.other,
            step=found.step,
            size=problem.size,
            cell=cell_text(cell),
            origin=cell_text((found.from_row, found.from_column)),
        ),
        legal_share=1.0 if category is FailureCategory.GOAL_NOT_REACHED else share,
        **progress,
    )


_FINDINGS: dict[int, tuple[FailureCategory, str]] = {
    Finding.WRONG_START: (
        FailureCategory.ILLEGAL_MOVE,
        "agent {agent} begins at {cell}, its start is {origin}",
    ),
    Finding.OFF_GRID: (
        FailureCategory.ILLEGAL_MOVE,
        "agent {agent} leaves the {size}x{size} grid to {cell}",
    ),
    Finding.JUMP: (
        FailureCategory.ILLEGAL_MOVE,
        "agent {agent} jumps from {origin} to {cell}, which is no neighbour",
    ),
    Finding.HOLE: (FailureCategory.HOLE_COLLISION, "agent {agent} enters the hole {cell}"),
    Finding.SAME_CELL: (
        FailureCategory.CONFLICT,
        "agents {other} and {agent} are both in {cell} after step {step}",
    ),
    Finding.SWAP: (
        FailureCategory.CONFLICT,
        "agents {other} and {agent} swap {cell} and {origin} in step {step}",
    ),
    Finding.GOAL_MISSED: (
        FailureCategory.GOAL_NOT_REACHED,
        "agent {agent} ends at {cell}, its goal is {origin}",
    ),
}
"""What a verdict says of a finding: its category, and its sentence."""
