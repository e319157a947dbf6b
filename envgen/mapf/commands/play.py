"""Step through a board in the terminal: by hand, or along the optimal plan or an answer."""

from collections.abc import Callable

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from envgen.errors import DataError, shown
from envgen.mapf.commands.problems import Posed, counted
from envgen.mapf.drawing import AGENT_COLOURS, FAILURE_COLOUR, HOLE, ICE, INK, NUMBER_COLOURS
from envgen.mapf.problem import Cell, Move, Plan, Problem, Solution, cell_text, moves_of, path_of
from envgen.mapf.prompts import PromptStyle, prompt
from envgen.mapf.verifier import FailureCategory, Verdict, trace, verify_plan

Ask = Callable[[str], str]
"""Shows a prompt and returns the line that was typed; EOFError when there are no more."""

_LEGEND = "0 agent 0 · (0) its goal · [0] agent 0 on its goal · # hole · ! where a rule is broken"
_MANUAL = (
    "one move an agent (up down left right wait, or U D L R W) · u undo · p what the policy sees · q quit"
)
_STEPWISE = "Enter next step · u back · p what the policy sees · q quit"


def play(one: Posed, style: PromptStyle, console: Console, ask: Ask) -> None:
    """Ask for moves, one line a step, until all agents are on their goals, `q` or the end of input; then say
    the verdict.

    A move that breaks a rule is shown and has to be undone. A line may name moves by their first letter, in
    either case; a small `u` alone takes a step back. Of several problems the caller chooses one."""
    problem = one.problem
    plan: Plan = tuple((agent.start,) for agent in problem.agents)
    _introduce(console, problem, _MANUAL)
    while True:
        verdict = verify_plan(problem, plan)
        _show(
            console, problem, plan, None if verdict.category is FailureCategory.GOAL_NOT_REACHED else verdict
        )
        if verdict.valid:
            break
        line = _line(ask, console, problem, style)
        if line is None:
            break
        if line == "u":
            plan = tuple(path[:-1] or path for path in plan)
        elif verdict.category is not FailureCategory.GOAL_NOT_REACHED:
            console.print("undo the step with u, or quit with q", style="dim")
        elif line:
            try:
                plan = _stepped(plan, _moves(line, problem.num_agents))
            except DataError as error:
                console.print(Text(str(error), style=FAILURE_COLOUR))
    console.print(_summary(one, verdict))


def show_plan(one: Posed, style: PromptStyle, console: Console, ask: Ask) -> None:
    """Step through the optimal plan, Enter by Enter; DataError if the problem has none."""
    solution = one.solution()
    if solution is None:
        raise DataError(
            f"problem {one.problem.id!r} is not solvable, so there is no plan to show; play it without --plan"
        )
    show_answer(
        one,
        solution.plan,
        verify_plan(one.problem, solution.plan, solution.sum_of_costs),
        style,
        console,
        ask,
    )


def show_answer(
    one: Posed, plan: Plan | None, verdict: Verdict, style: PromptStyle, console: Console, ask: Ask
) -> None:
    """Step through a plan that may be illegal, Enter by Enter, up to the step at which it fails, and say its
    verdict; without a plan that alone."""
    steps = trace(plan, verdict) if plan else ()
    if plan:
        _introduce(console, one.problem, _STEPWISE)
    step = 0
    while plan and step < len(steps):
        last = step == len(steps) - 1
        _show(console, one.problem, tuple(path[: step + 1] for path in plan), verdict if last else None, step)
        if last:
            break
        line = _line(ask, console, one.problem, style)
        if line is None:
            return
        step = max(0, step - 1) if line == "u" else step + 1
    console.print(_summary(one, verdict))


def _introduce(console: Console, problem: Problem, keys: str) -> None:
    name = f"problem {shown(problem.id)}: " if problem.id else ""
    console.print(Text(f"{name}{problem.size}x{problem.size}, {counted(problem.num_agents, 'agent')}"))
    console.print(Text(keys, style="dim"))
    console.print(Text(_LEGEND, style="dim"))


def _line(ask: Ask, console: Console, problem: Problem, style: PromptStyle) -> str | None:
    """The next line that is for the board; None at the end. `p` is answered here."""
    while True:
        try:
            line = ask("> ").strip()
        except EOFError:
            console.print()
            return None
        except UnicodeDecodeError as error:
            raise DataError(f"standard input: cannot be read as text: {error}") from None
        if line.lower() in {"q", "quit"}:
            return None
        if line.lower() != "p":
            return line
        console.print(Panel(Text(prompt(problem, style)), title="what the policy sees", expand=False))


def _moves(line: str, agents: int) -> list[Move]:
    """The moves of a line; DataError says what cannot be read."""
    words = line.upper().replace(",", " ").split()
    if len(words) != agents:
        raise DataError(
            f"{counted(len(words), 'move')} for {counted(agents, 'agent')}; type one for each, as in"
            f" {' '.join('RWDLU'[:agents])}"
        )
    found = []
    for word in words:
        named = [move for move in Move if move.startswith(word)]
        if len(named) != 1:
            raise DataError(
                f"unknown move {shown(word)}; expected one of {' '.join(Move).lower()}, or the first letter"
            )
        found.append(named[0])
    return found


def _stepped(plan: Plan, moves: list[Move]) -> Plan:
    return tuple((*path, path_of(path[-1], [move])[-1]) for path, move in zip(plan, moves, strict=True))


def _show(
    console: Console, problem: Problem, plan: Plan, verdict: Verdict | None, step: int | None = None
) -> None:
    """The board at the end of `plan`, below it a line an agent, and what the verdict names as wrong, if it is
    given and does."""
    failed = verdict is not None and not verdict.valid
    now = [path[-1] for path in plan]
    console.print(Text(f"step {max(map(len, plan)) - 1 if step is None else step}", style="bold"))
    console.print(_board(problem, now, verdict.cell if failed and verdict else None))
    for index, (agent, path) in enumerate(zip(problem.agents, plan, strict=True)):
        moves = " ".join(map(_letter, path, path[1:]))
        at = (
            "on its goal"
            if path[-1] == agent.goal
            else f"at {cell_text(path[-1])}, goal {cell_text(agent.goal)}"
        )
        console.print(Text.assemble((f" {index} ", _paint(index)), f" {at}  ", (moves, "dim")))
    if failed and verdict:
        console.print(Text(f"{verdict.outcome}: {verdict.reason}", style=FAILURE_COLOUR))


def _board(problem: Problem, now: list[Cell], wrong: Cell | None) -> Table:
    """The grid: `#` hole, `(0)` goal of agent 0, ` 0 ` agent 0, `[0]` agent 0 on its goal, `!` where a rule
    was broken."""
    table = Table.grid()
    table.add_row("", *(Text(f" {column} ", style="dim") for column in range(problem.size)))
    holes, goals = set(problem.holes), {agent.goal: index for index, agent in enumerate(problem.agents)}
    for row in range(problem.size):
        cells = []
        for column in range(problem.size):
            cell = (row, column)
            here = [index for index, place in enumerate(now) if place == cell]
            if cell == wrong:
                cells.append(
                    Text(f"!{''.join(map(str, here))}".ljust(3), style=f"bold {INK} on {FAILURE_COLOUR}")
                )
            elif here:
                cells.append(
                    Text(
                        f"[{here[0]}]" if goals.get(cell) == here[0] else f" {here[0]} ",
                        style=_paint(here[0]),
                    )
                )
            elif cell in goals:
                cells.append(Text(f"({goals[cell]})", style=f"bold {AGENT_COLOURS[goals[cell]]} on {ICE}"))
            else:
                cells.append(
                    Text(
                        " # " if cell in holes else " . ",
                        style=f"{ICE} on {HOLE}" if cell in holes else f"{HOLE} on {ICE}",
                    )
                )
        table.add_row(Text(f" {row} ", style="dim"), *cells)
    return table


def _paint(index: int) -> str:
    return f"bold {NUMBER_COLOURS[index]} on {AGENT_COLOURS[index]}"


def _letter(before: Cell, after: Cell) -> str:
    """First letter of the move between two cells; ? for a jump."""
    near = abs(before[0] - after[0]) + abs(before[1] - after[1]) <= 1
    return moves_of((before, after))[0][0] if near else "?"


def _waits(solution: Solution) -> str:
    return "somebody has to wait" if solution.wait_required else "nobody has to wait"


def _summary(one: Posed, verdict: Verdict) -> Text:
    """What became of a plan, and how far it is from the optimum."""
    if not verdict.valid or verdict.sum_of_costs is None:
        return Text(f"not valid: {verdict.outcome}: {verdict.reason}", style=f"bold {FAILURE_COLOUR}")
    solution = one.solution()
    assert solution is not None, "a valid plan is a proof that there is an optimal one"
    over = verdict.sum_of_costs - solution.sum_of_costs
    judged = "optimal" if over == 0 else f"{over} above the optimum {solution.sum_of_costs}"
    return Text(
        f"valid: sum of costs {verdict.sum_of_costs}, {judged}; makespan {verdict.makespan};"
        f" {_waits(solution)}",
        style="bold",
    )
