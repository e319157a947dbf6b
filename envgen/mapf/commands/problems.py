"""Where commands get their problems from: files of every kind, and the named boards."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from envgen.errors import DataError, shown
from envgen.mapf.boards import NAMES, board
from envgen.mapf.formats import read_boards, read_problems
from envgen.mapf.problem import Instance, Problem, Solution
from envgen.mapf.solver.solve import solve, solve_many


@dataclass(frozen=True)
class Posed:
    """A problem, and its solution where the source holds it."""

    problem: Problem
    stored: Solution | None = None

    def solution(self) -> Solution | None:
        """The stored solution, or that of the solver; None if there is no plan."""
        return self.stored or solve(self.problem)


def posed(source: str, id: str | None = None, agents: int | None = None) -> list[Posed]:
    """The problems of a file, or a named board; with `id` only that one. DataError if there are none."""
    path = Path(source)
    if source in NAMES and not path.exists():
        if agents is not None:
            raise DataError(
                f"{source}: {agents} agents asked for, which only a .scen file can be cut down to; leave out"
                " --agents"
            )
        found = [Posed(board(source))]
    elif not path.exists() and not path.suffix:
        raise DataError(
            f"{source}: no such file, and no board of that name; the boards are {', '.join(NAMES)}"
        )
    elif path.suffix == ".parquet" and agents is None:
        found = [Posed(instance.problem, instance.solution) for instance in read_boards(path)]
    else:
        found = [Posed(problem) for problem in read_problems(path, agents)]
    if not found:
        raise DataError(f"{source}: holds no problem")
    if id is None:
        return found
    chosen = [one for one in found if one.problem.id == id]
    if len(chosen) != 1:
        some = ", ".join(shown(one.problem.id) for one in found[:3]) + (", ..." if len(found) > 3 else "")
        raise DataError(
            f"{source}: {len(chosen)} problems with the id {shown(id)}, expected one; there are {some}"
        )
    return chosen


def solved(found: Iterable[Posed], source: str) -> list[Instance]:
    """All of them with their solutions; DataError for a problem that has no plan."""
    given = list(found)
    missing = iter(solve_many([one.problem for one in given if one.stored is None]))
    instances = []
    for one in given:
        solution = one.stored or next(missing)
        if solution is None:
            raise DataError(
                f"{source}: problem {one.problem.id!r} is not solvable, so there is no plan to store, show or"
                " judge by; leave it out"
            )
        instances.append(Instance(problem=one.problem, solution=solution))
    return instances


def counted(number: int, noun: str) -> str:
    """`1 problem`, `2 problems`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
