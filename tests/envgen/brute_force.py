"""The optimum by exhaustion, written to share nothing with the solver: time runs backwards from the goals.

In reversed time every agent first rests on its goal for free, then leaves it for good (its last arrival) and
from then on pays one a step. One Dijkstra run from the goals therefore prices every start of that board."""

import heapq
from itertools import pairwise

from envgen.mapf.problem import Cell, Plan, Problem

STEP = 1 << 20
"""Price of a step; a wait costs one more, so that among plans of the same sum the fewest waits win."""


class Exhausted:
    """Least sums of costs of all joint starts on one board with fixed goals."""

    def __init__(self, size: int, holes: tuple[Cell, ...], goals: tuple[Cell, ...]) -> None:
        self.free = [(r, c) for r in range(size) for c in range(size) if (r, c) not in holes]
        self.goals = goals
        priced = _prices(self.free, goals, waits=True)
        self.with_waits = {cells: cost for cells, (cost, _) in priced.items()}
        self.fewest_waits = {cells: waits for cells, (_, waits) in priced.items()}
        self.without_waits = {
            cells: cost for cells, (cost, _) in _prices(self.free, goals, waits=False).items()
        }

    def optimum(self, starts: tuple[Cell, ...]) -> int | None:
        """The least sum of costs, or None if the board has no plan."""
        return self.with_waits.get(starts)

    def wait_required(self, starts: tuple[Cell, ...]) -> bool:
        """Whether forbidding to wait before the last arrival makes the optimum worse, or removes every
        plan."""
        return self.without_waits.get(starts) != self.with_waits[starts]


def exhaust(problem: Problem) -> Exhausted:
    """The prices of a problem's board and goals."""
    return Exhausted(problem.size, problem.holes, tuple(agent.goal for agent in problem.agents))


def _neighbours(free: list[Cell]) -> dict[Cell, list[Cell]]:
    return {
        (r, c): [n for n in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1)) if n in free] for r, c in free
    }


def _prices(
    free: list[Cell], goals: tuple[Cell, ...], *, waits: bool
) -> dict[tuple[Cell, ...], tuple[int, int]]:
    """Least (sum of costs, waits) of every joint start."""
    near = _neighbours(free)
    origin = (goals, (False,) * len(goals))
    price = {origin: 0}
    queue = [(0, origin)]
    best: dict[tuple[Cell, ...], tuple[int, int]] = {}
    while queue:
        cost, state = heapq.heappop(queue)
        if cost > price[state]:
            continue
        best.setdefault(state[0], divmod(cost, STEP))
        for more, *after in _joint_moves(near, *state, waits):
            total, key = cost + more, (after[0], after[1])
            if key not in price or total < price[key]:
                price[key] = total
                heapq.heappush(queue, (total, key))
    return best


def _joint_moves(
    near: dict[Cell, list[Cell]], cells: tuple[Cell, ...], left: tuple[bool, ...], waits: bool
) -> list[tuple[int, tuple[Cell, ...], tuple[bool, ...]]]:
    """Price and end of all joint steps without two agents in a cell and without swaps; an agent still at rest
    may stay, or leave for good."""
    steps: list[tuple[int, tuple[Cell, ...], tuple[bool, ...]]] = [(0, (), ())]
    agents = {cell: agent for agent, cell in enumerate(cells)}
    for agent, (cell, gone) in enumerate(zip(cells, left, strict=True)):
        # Target, the agent that has to make room there, whether this one has left its goal, price.
        moves = [(target, agents.get(target, agent), True, STEP) for target in near[cell]]
        if waits or not gone:
            moves.append((cell, agent, gone, (STEP + 1) * gone))
        steps = [
            (price + more, (*targets, target), (*leaving, leaves))
            for price, targets, leaving in steps
            for target, other, leaves, more in moves
            if target not in targets and (other >= agent or targets[other] != cell)
        ]
    return steps


def steps_from(problem: Problem, source: Cell) -> dict[Cell, int]:
    """Steps from a cell to every cell that one agent alone can reach."""
    free = [(r, c) for r in range(problem.size) for c in range(problem.size) if (r, c) not in problem.holes]
    near, steps, reached = _neighbours(free), {source: 0}, [source]
    for cell in reached:  # which grows
        for beside in near[cell]:
            if beside not in steps:
                steps[beside] = steps[cell] + 1
                reached.append(beside)
    return steps


def legal(problem: Problem, plan: Plan) -> bool:
    """Whether a plan is valid, by moving the agents on a set of cells step by step."""
    if tuple(path[0] for path in plan) != tuple(agent.start for agent in problem.agents):
        return False
    length = max(map(len, plan))
    walks = [[*path, *[path[-1]] * (length - len(path))] for path in plan]
    ice = {(r, c) for r in range(problem.size) for c in range(problem.size)} - set(problem.holes)
    for before, after in pairwise(zip(*walks, strict=True)):
        crossings = {frozenset(edge) for edge in zip(before, after, strict=True) if edge[0] != edge[1]}
        moved = sum(a != b for a, b in zip(before, after, strict=True))
        near = all(abs(a[0] - b[0]) + abs(a[1] - b[1]) <= 1 for a, b in zip(before, after, strict=True))
        if not near or not ice.issuperset(after) or len(set(after)) < len(after) or len(crossings) < moved:
            return False
    return [walk[-1] for walk in walks] == [agent.goal for agent in problem.agents]
