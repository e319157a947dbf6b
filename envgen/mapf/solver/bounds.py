"""Lower bounds of the cost of a group's plan, from the costs of one and two of its agents."""

from numba import njit

from envgen.mapf.solver.memory import ARRIVED, FAR, LEVEL, NEVER, TAKEN
from envgen.mapf.solver.shortest import flood
from envgen.mapf.solver.tables import pair_index


@njit
def possible_cost(cost):
    """The least cost from `cost` on that a plan can have: detours add 2 to the excess, waits 1."""
    excess, waits = cost // LEVEL, cost % LEVEL
    if waits > excess:
        return (excess + 1) * LEVEL + (excess + 1) % 2
    return cost + (excess + waits) % 2


@njit
def bound(m, low, high):
    """Lower bound of the cost of ranks `low` to `high` - 1 from `m.after`; NEVER if they cannot finish.

    What each costs alone, and what is gained by the best of disjoint pairs, or of all pairs shared evenly.
    """
    arrived, active, total = 0, 0, 0
    for rank in range(m.count):
        arrived |= (m.after[rank] == ARRIVED) << rank
    if not m.alone_filled[arrived]:
        _fill_alone(m, arrived)
    for rank in range(low, high):
        total += m.alone[arrived, rank, m.after[rank]]
        active += m.after[rank] != ARRIVED
    if total >= NEVER or active < 2:
        return min(total, NEVER)
    every = gain = 0
    for j in range(low + 1, high):
        for i in range(low, j):
            x, y = m.after[i], m.after[j]
            alone = m.alone[arrived, i, x] + m.alone[arrived, j, y]
            pair = m.gain[pair_index(i, j)] = max(0, m.pairs[pair_index(i, j), x, y] - alone)
            every += pair
            gain = max(gain, pair)
            if pair:
                for k in range(low + 1, j):
                    for h in range(low, k):
                        if h != i and k != i:
                            gain = max(gain, pair + m.gain[pair_index(h, k)])
    if gain >= NEVER // 2:
        return NEVER
    return possible_cost(total + max(gain, -(-every // (active - 1))))


@njit
def _fill_alone(m, arrived):
    """Fill the costs of each rank past the ranks in the mask `arrived`."""
    m.alone_filled[arrived] = True
    for rank in range(m.count):
        m.alone[arrived, rank, ARRIVED] = 0
        if (arrived >> rank) & 1:
            continue
        goal = m.home[rank]
        m.layer[:] = FAR
        for other in range(m.count):
            if (arrived >> other) & 1:
                m.layer[m.home[other]] = TAKEN
        flood(m.near, m.degree, m.queue, m.layer, goal)
        for cell in range(m.size * m.size):
            reached = TAKEN < m.layer[cell] < FAR
            m.alone[arrived, rank, cell] = (m.layer[cell] - m.ahead[rank, cell]) * LEVEL if reached else NEVER
        m.alone[arrived, rank, goal] = NEVER
        for way in range(m.degree[goal]):
            if m.layer[m.near[goal, way]] > 0:
                m.alone[arrived, rank, goal] = 0
