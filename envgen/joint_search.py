"""A* over joint positions, complete: it finds the optimum of any board or proves that there is none.

Used where the cost tree would take too long (crowded boards), and as its independent check. Nodes are expanded
partially by the increase of f, as in enhanced partial expansion A* (Goldenberg et al. 2014).
"""

import heapq
from collections.abc import Iterator

from envgen.cost_tree import conflict_free
from envgen.grid import Grid, bits

State = tuple[tuple[int, ...], int]
"""Positions (bit indices) and a bit mask of the agents that have arrived for good."""


def solvable(grid: Grid, starts: list[int], goals: list[int]) -> bool:
    """Whether any conflict-free joint plan exists: greedy best-first over joint positions, exhaustive if need be."""
    distance = [grid.distances(goal) for goal in goals]
    target, start = tuple(goals), tuple(starts)
    queue, seen = [(0, start)], {start}
    while queue:
        _, state = heapq.heappop(queue)
        if state == target:
            return True
        for following in conflict_free(state, [lambda c=c: bits(grid.neighbours(1 << c) | 1 << c) for c in state]):
            if following not in seen:
                seen.add(following)
                heapq.heappush(queue, (sum(d[c] for d, c in zip(distance, following, strict=True)), following))
    return False


def optimal_paths(grid: Grid, starts: list[int], goals: list[int], *, waits: bool = True, cost_limit: int | None = None) -> list[list[int]] | None:
    """Paths of a plan with the least sum of costs; None if there is none (or none within `cost_limit`).

    Without `waits` an agent may rest only after its last arrival. Ends on every board, because the joint states are
    finitely many; an unsolvable board costs all of them, so ask `solvable` first.
    """
    distance = [grid.distances(goal) for goal in goals]
    agents = range(len(starts))
    queue: list[tuple[int, int, int, State]] = []
    cost: dict[State, int] = {}
    parent: dict[State, State | None] = {}
    base = sum(distance[i][starts[i]] for i in agents)
    for committed in _subsets(sum(1 << i for i in agents if starts[i] == goals[i])):
        root: State = (tuple(starts), committed)
        cost[root], parent[root] = 0, None
        heapq.heappush(queue, (base, 0, 0, root))
    done = (1 << len(starts)) - 1
    while queue:
        f, negative_g, increase, state = heapq.heappop(queue)
        if cost_limit is not None and f > cost_limit:
            return None
        if -negative_g != cost[state]:
            continue
        if state[1] == done:
            return _paths(parent, state)
        largest = 0
        for extra, following in _moves(grid, goals, distance, state, increase, waits):
            if extra is None:
                largest = max(largest, following)  # type: ignore[type-var]
                continue
            g = cost[state] + sum(1 for i in agents if not state[1] >> i & 1)
            if g < cost.get(following, 1 << 60):
                cost[following], parent[following] = g, state
                heapq.heappush(queue, (f, -g, 0, following))
        if increase < largest:
            heapq.heappush(queue, (f + 1, negative_g, increase + 1, state))
    return None


def _moves(grid: Grid, goals: list[int], distance: list[dict[int, int]], state: State, increase: int, waits: bool) -> Iterator[tuple]:
    """Yield (None, largest possible increase of f), then (increase, following state) for moves that raise f by `increase`."""
    positions, committed = state
    options: list[list[tuple[int, int, int]]] = []
    for i, cell in enumerate(positions):
        if committed >> i & 1:
            options.append([(0, cell, 1)])
            continue
        cells = grid.neighbours(1 << cell) | (1 << cell if waits else 0)
        here = []
        for target in bits(cells):
            raised = 1 + distance[i][target] - distance[i][cell]
            here.append((raised, target, 0))
            if target == goals[i] and target != cell:
                here.append((raised, target, 1))
        options.append(here)
    yield None, sum(max((o[0] for o in here), default=0) for here in options)

    def extend(agent: int, left: int, chosen: tuple[int, ...], mask: int) -> Iterator[tuple]:
        if agent == len(positions):
            if left == 0:
                yield increase, (chosen, mask)
            return
        for raised, target, arrived in options[agent]:
            if raised <= left and all(target != c and not (target == s and c == positions[agent]) for c, s in zip(chosen, positions, strict=False)):
                yield from extend(agent + 1, left - raised, (*chosen, target), mask | arrived << agent)

    yield from extend(0, increase, (), 0)


def _paths(parent: dict[State, State | None], state: State) -> list[list[int]]:
    trail: list[State] = []
    current: State | None = state
    while current is not None:
        trail.append(current)
        current = parent[current]
    trail.reverse()
    paths = []
    for i in range(len(state[0])):
        steps = [positions[i] for positions, committed in trail]
        arrival = next(t for t, (_, committed) in enumerate(trail) if committed >> i & 1)
        paths.append(steps[: arrival + 1])
    return paths


def _subsets(mask: int) -> Iterator[int]:
    subset = mask
    while True:
        yield subset
        if subset == 0:
            return
        subset = (subset - 1) & mask
