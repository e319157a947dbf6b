"""What a policy is asked, and the one form in which every policy answers."""

from enum import StrEnum

from envgen.mapf.problem import GOAL_LETTERS, START_LETTERS, Plan, Problem, agent_lines, cell_text, to_text


class PromptStyle(StrEnum):
    """How a board is put to a policy."""

    BOARD = "board"
    """Rules, grid, legend and agent lines, for a language model."""
    COMPACT = "compact"
    """Holes and agents as cells only, for a policy that was trained on this task."""


def prompt(problem: Problem, style: PromptStyle) -> str:
    """The user message that poses `problem`."""
    return _board(problem) if style is PromptStyle.BOARD else _compact(problem)


def answer(plan: Plan) -> str:
    """A joint plan as an answer: one line an agent with the cells it visits, a repeated cell is a wait."""
    return "\n".join(f"Agent {i}: {' '.join(map(cell_text, path))}" for i, path in enumerate(plan))


def _compact(problem: Problem) -> str:
    holes = " ".join(map(cell_text, problem.holes)) or "none"
    return "\n".join([f"Solve {problem.size}x{problem.size}.", f"Holes: {holes}", *agent_lines(problem)])


def _board(problem: Problem) -> str:
    legend = ", ".join(
        f"{START_LETTERS[i]} and {GOAL_LETTERS[i]} are agent {i}'s start and goal"
        for i in range(problem.num_agents)
    )
    last = problem.size - 1
    return f"""\
Plan paths for {problem.num_agents} agents that move at the same time on a frozen lake.

The lake is a {problem.size}x{problem.size} grid. F is ice, H is a hole, {legend}.
Cells are (row,column), counted from the top left, from (0,0) to ({last},{last}).

{to_text(problem)}

Rules:
- In every step each agent moves to a cell above, below, left or right of it, or waits where it is.
- No agent may leave the grid or enter a hole.
- Two agents may not be in the same cell after a step, and may not swap cells in a step.
- Moving into a cell that another agent leaves in the same step is allowed.
- An agent that has reached its goal for the last time stays there and still blocks the cell.
- The cost of an agent is the number of steps until its last arrival at its goal. \
Make the sum of all costs as small as you can.

End your answer with one line for each agent that lists every cell it visits, from its start to its goal, \
one cell a step.
Repeat a cell to wait there. For example, an agent that waits once and then moves right:
Agent 0: (0,1) (0,1) (0,2)"""
