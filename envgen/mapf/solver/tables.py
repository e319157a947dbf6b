"""States and moves of the members, and the exact costs of every two of them by themselves.

A state is a cell, or ARRIVED for a rank that rests on its goal for good.
"""

from numba import njit

from envgen.mapf.solver.memory import ARRIVED, LEVEL, MAX_COST, MAX_ENTRIES, NEVER, STATES
from envgen.mapf.solver.positions import bucket_of, clear, next_bucket, pop, push


@njit
def cell_of(m, rank, state):
    """Cell of a rank in a state."""
    return m.home[rank] if state == ARRIVED else state


@njit
def state_near(m, state, cell, way):
    """A state from which a rank can move into `state`, which is on `cell`; the first is `state` itself."""
    return state if way == 0 else m.near[cell, way - 1]


@njit
def cost_of(m, rank, state, target):
    """Cost of a rank's move."""
    if state == ARRIVED:
        return 0
    if state == target:
        return LEVEL + 1
    return (1 + m.ahead[rank, target] - m.ahead[rank, state]) * LEVEL


@njit
def pair_index(i, j):
    """Index of the ranks i < j."""
    return j * (j - 1) // 2 + i


@njit
def fill_tables(m):
    """Measure the way ahead of every member, and fill the costs of all pairs."""
    m.alone_filled[:] = False
    for rank in range(m.count):
        agent = m.members[rank]
        m.home[rank] = m.goal[agent]
        m.ahead[rank, :ARRIVED] = m.distance[agent]
        m.ahead[rank, m.home[rank]] = 2
        m.ahead[rank, ARRIVED] = 0
    for j in range(1, m.count):
        for i in range(j):
            _fill(m, i, j)


@njit
def _fill(m, i, j):
    """Fill the costs of two ranks, backwards from where both have arrived (Dijkstra's algorithm)."""
    table = m.pairs[pair_index(i, j)]
    table[:] = NEVER
    clear(m, MAX_ENTRIES)
    table[ARRIVED, ARRIVED] = 0
    push(m, STATES * STATES - 1, 0)
    bucket = next_bucket(m, 0)
    while bucket >= 0:
        entry = pop(m, bucket)
        x, y = entry // STATES, entry % STATES
        cost = table[x, y]
        if bucket_of(cost) == bucket:
            _relax(m, table, (i, j), (x, y), cost)
        bucket = next_bucket(m, bucket)


@njit
def _relax(m, table, ranks, states, cost):
    """Lower the costs of all states from which two ranks can move into `states`, which has `cost`."""
    i, j = ranks
    x, y = states
    cell_x, cell_y = cell_of(m, i, x), cell_of(m, j, y)
    for a in range(m.degree[cell_x] + 1):
        from_x = state_near(m, x, cell_x, a)
        was_x = cell_of(m, i, from_x)
        cost_x = cost + cost_of(m, i, from_x, x)
        for b in range(m.degree[cell_y] + 1):
            from_y = state_near(m, y, cell_y, b)
            was_y = cell_of(m, j, from_y)
            total = cost_x + cost_of(m, j, from_y, y)
            if was_x == was_y or (was_x == cell_y and was_y == cell_x) or total > MAX_COST:
                continue
            if total < table[from_x, from_y]:
                table[from_x, from_y] = total
                push(m, from_x * STATES + from_y, bucket_of(total))
