"""Multi-value decision diagrams of the members, and prioritised planning inside them.

The diagram of a cost holds, for each step, the cells on some path that is at its goal from that cost on.
"""

from numba import njit

from envgen.mapf.solver.bitboard import NONE, bit, holds, lowest, neighbours, read_masks, within_a_step
from envgen.mapf.solver.memory import EXCESSES, STEPS


@njit
def begin(m):
    """Start diagrams of the members; False if a path may be too long for them."""
    read_masks(m)
    m.tree += 1
    m.verdict_count = 0
    for rank in range(m.count):
        agent = m.members[rank]
        m.length[rank] = m.distance[agent, m.start[agent]]
        if m.length[rank] + EXCESSES > STEPS:
            return False
        m.reach[rank, 0, 0], m.reach[rank, 0, 1] = bit(m.goal[agent])
        m.radius[rank] = 0
    return True


@njit
def allowed_cost(m, rank):
    """What a rank may cost in the vector at hand."""
    return m.length[rank] + m.excess[rank]


@njit
def diagram_of(m, rank):
    """The diagram of a rank in the vector at hand."""
    return m.diagrams[rank, 2 * m.excess[rank] + m.strict]


@njit
def _widen(m, rank, steps):
    """Extend the sets of cells that are at most 0, 1, ... moves from the goal to `steps` moves."""
    while m.radius[rank] < steps:
        radius = m.radius[rank]
        low, high = m.reach[rank, radius, 0], m.reach[rank, radius, 1]
        near_low, near_high = neighbours(m, low, high)
        m.reach[rank, radius + 1, 0] = low | near_low
        m.reach[rank, radius + 1, 1] = high | near_high
        m.radius[rank] += 1


@njit
def build_diagram(m, rank):
    """Build the diagram of a rank's allowed cost; False if it is empty."""
    level, cost = 2 * m.excess[rank] + m.strict, allowed_cost(m, rank)
    diagram = m.diagrams[rank, level]
    if m.built[rank, level] != m.tree:
        m.built[rank, level] = m.tree
        _widen(m, rank, cost)
        low, high = bit(m.start[m.members[rank]])
        diagram[0, 0], diagram[0, 1] = low, high
        for step in range(1, cost + 1):
            low, high = within_a_step(m, low, high)
            low &= m.reach[rank, cost - step, 0]
            high &= m.reach[rank, cost - step, 1]
            diagram[step, 0], diagram[step, 1] = low, high
    return (diagram[cost, 0] | diagram[cost, 1]) != NONE


@njit
def plan_in_turn(m, order, horizon):
    """Plan the ranks one by one inside their diagrams, in one of three orders.

    True with `plans` filled up to `horizon` is a proof that the vector holds a plan; False is no proof.
    """
    for index in range(m.count):
        m.turns[index] = index if order == 0 else m.count - 1 - index if order == 1 else (index + 1) % m.count
    for index in range(m.count):
        rank = m.turns[index]
        cost, goal = allowed_cost(m, rank), m.home[rank]
        if not _advance(m, index, rank, cost):
            return False
        for step in range(cost + 1, horizon + 1):
            for earlier in range(index):
                if m.plans[m.turns[earlier], step] == goal:
                    return False
        _trace(m, index, rank, cost)
        for step in range(cost, horizon + 1):
            m.plans[rank, step] = goal
    return True


@njit
def _advance(m, index, rank, cost):
    """Fill the cells that a rank can reach past those planned before it; False if it does not arrive."""
    diagram = diagram_of(m, rank)
    low, high = m.front[0, 0], m.front[0, 1] = diagram[0, 0], diagram[0, 1]
    for step in range(1, cost + 1):
        near_low, near_high = within_a_step(m, low, high)
        near_low &= diagram[step, 0]
        near_high &= diagram[step, 1]
        for earlier in range(index):
            other = m.turns[earlier]
            after, before = m.plans[other, step], m.plans[other, step - 1]
            near_low, near_high = without_swap(m, low, high, near_low, near_high, before, after)
            bit_low, bit_high = bit(after)
            near_low &= ~bit_low
            near_high &= ~bit_high
        low, high = m.front[step, 0], m.front[step, 1] = near_low, near_high
        if (low | high) == NONE:
            return False
    return True


@njit
def without_swap(m, low, high, near_low, near_high, before, after):
    """The set `near`, reached from a set, less the cell `before` if it is reached from `after` only."""
    if after != before and holds(near_low, near_high, before) and holds(low, high, after):
        there_low, there_high = bit(before)
        gone_low, gone_high = bit(after)
        from_low, from_high = neighbours(m, there_low, there_high)
        if (from_low & low & ~gone_low) == NONE and (from_high & high & ~gone_high) == NONE:
            near_low &= ~there_low
            near_high &= ~there_high
    return near_low, near_high


@njit
def _trace(m, index, rank, cost):
    """Read a rank's path backwards from `front`."""
    cell = m.home[rank]
    for step in range(cost, 0, -1):
        bit_low, bit_high = bit(cell)
        from_low, from_high = neighbours(m, bit_low, bit_high)
        from_low &= m.front[step - 1, 0]
        from_high &= m.front[step - 1, 1]
        for earlier in range(index):
            other = m.turns[earlier]
            if m.plans[other, step - 1] == cell:
                gone_low, gone_high = bit(m.plans[other, step])
                from_low &= ~gone_low
                from_high &= ~gone_high
        if (from_low | from_high) != NONE:
            cell = lowest(from_low, from_high)
        m.plans[rank, step - 1] = cell
