"""Multi-value decision diagrams (MDDs) of agents, and prioritised planning inside them, compiled.

The diagram of a cost holds, per step, the cells on some path that is at its goal from that cost on.
"""

from envgen.mapf.compiled import compiled
from envgen.mapf.solver.bitboard import (
    both,
    either,
    holds,
    is_empty,
    lowest,
    neighbours,
    only,
    read,
    within_a_step,
    without,
    write,
)


@compiled
def pair_index(i, j):
    """Index of the pair i < j."""
    return j * (j - 1) // 2 + i


@compiled
def measure(m, agent):
    """Breadth-first layers from the goal to the start; the distance, or -1 if the goal cannot be reached."""
    reach = m.reach[agent]
    cells, steps = only(m.goals[agent]), 0
    write(reach[0], cells)
    while not holds(cells, m.starts[agent]):
        wider = either(cells, neighbours(m, cells))
        if is_empty(without(wider, cells)):
            return -1
        cells = wider
        steps += 1
        write(reach[steps], cells)
    m.distance[agent] = m.radius[agent] = steps
    return steps


@compiled
def _widen(m, agent, steps):
    """Extend the layers of `measure` to `steps` moves from the goal."""
    reach = m.reach[agent]
    for radius in range(m.radius[agent], steps):
        cells = read(reach[radius])
        write(reach[radius + 1], either(cells, neighbours(m, cells)))
    m.radius[agent] = max(steps, m.radius[agent])


@compiled
def allowed_cost(m, agent):
    """What an agent may cost in the vector at hand."""
    return m.distance[agent] + m.excess[agent]


@compiled
def build_diagram(m, agent):
    """Build the diagram of an agent's allowed cost; False if it is empty."""
    level, cost = m.excess[agent], allowed_cost(m, agent)
    diagram = m.diagrams[agent, level]
    if m.diagram_stamps[agent, level] != m.stamp:
        m.diagram_stamps[agent, level] = m.stamp
        _widen(m, agent, cost)
        reach = m.reach[agent]
        cells = only(m.starts[agent])
        write(diagram[0], cells)
        for step in range(1, cost + 1):
            cells = both(within_a_step(m, cells), read(reach[cost - step]))
            write(diagram[step], cells)
    return not is_empty(read(diagram[cost]))


@compiled
def _ordered(order, rank, count):
    if order == 0:
        return rank
    if order == 1:
        return count - 1 - rank
    return (rank + 1) % count


@compiled
def plan_in_turn(m, order):
    """Plan all agents one by one inside their diagrams, in one of three orders.

    True with `paths` filled is a proof; False is none.
    """
    paths, queue = m.paths, m.queue
    for rank in range(m.agents):
        queue[rank] = _ordered(order, rank, m.agents)
    for rank in range(m.agents):
        agent = queue[rank]
        cost, goal = allowed_cost(m, agent), m.goals[agent]
        front = (
            m.front[:] if rank else m.diagrams[agent, m.excess[agent]]
        )  # nothing is in the way of the first
        if rank and not _advance(m, rank, agent, cost):
            return False
        for step in range(cost + 1, m.horizon + 1):
            for earlier in range(rank):
                if paths[queue[earlier], step] == goal:
                    return False
        cell = paths[agent, cost] = goal
        for step in range(cost, 0, -1):
            sources = both(neighbours(m, only(cell)), read(front[step - 1]))
            for earlier in range(rank):
                other = queue[earlier]
                if paths[other, step - 1] == cell:
                    sources = without(sources, only(paths[other, step]))
            if not is_empty(sources):
                cell = lowest(sources)
            paths[agent, step - 1] = cell
        for step in range(cost + 1, m.horizon + 1):
            paths[agent, step] = goal
    return True


@compiled
def _advance(m, rank, agent, cost):
    """Fill `front`, where an agent can be past those planned before it; False if it does not arrive."""
    diagram = m.diagrams[agent, m.excess[agent]]
    cells = read(diagram[0])
    write(m.front[0], cells)
    for step in range(1, cost + 1):
        near = both(within_a_step(m, cells), read(diagram[step]))
        for earlier in range(rank):
            other = m.queue[earlier]
            after, before = m.paths[other, step], m.paths[other, step - 1]
            near = without(without_swap(m, cells, near, before, after), only(after))
        cells = near
        if is_empty(cells):
            return False
        write(m.front[step], cells)
    return True


@compiled
def without_swap(m, cells, near, before, after):
    """The set `near`, reached from `cells`, less the cell `before` if it is reached from `after` only."""
    if after != before and holds(near, before) and holds(cells, after):
        sources = both(neighbours(m, only(before)), cells)
        if is_empty(without(sources, only(after))):
            return without(near, only(before))
    return near
