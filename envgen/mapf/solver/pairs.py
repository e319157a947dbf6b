"""What every two ranks by themselves can finish within their allowed costs: tables over their diagrams."""

from numba import njit

from envgen.mapf.solver.bitboard import NONE, bit, holds, lowest, neighbours, within_a_step
from envgen.mapf.solver.diagrams import allowed_cost
from envgen.mapf.solver.memory import EXCESSES, PAIRS
from envgen.mapf.solver.tables import pair_index


@njit
def _meet_at(m, i, j, step):
    """Whether two ranks may be in one cell at a step, or swap cells on the way to it."""
    first = m.diagrams[i, 2 * m.excess[i] + m.strict]
    second = m.diagrams[j, 2 * m.excess[j] + m.strict]
    a, b = min(step, allowed_cost(m, i)), min(step, allowed_cost(m, j))
    if ((first[a, 0] & second[b, 0]) | (first[a, 1] & second[b, 1])) != NONE:
        return True
    c, d = min(step - 1, allowed_cost(m, i)), min(step - 1, allowed_cost(m, j))
    if ((first[a, 0] & second[d, 0]) | (first[a, 1] & second[d, 1])) == NONE:
        return False
    return ((first[c, 0] & second[b, 0]) | (first[c, 1] & second[b, 1])) != NONE


@njit
def last_meeting(m, i, j):
    """The last step at which two ranks may collide; 0 if they never do."""
    step = max(allowed_cost(m, i), allowed_cost(m, j))
    while step > 0 and not _meet_at(m, i, j, step):
        step -= 1
    return step


@njit
def pair_can_finish(m, i, j):
    """Whether ranks i < j can both finish, by themselves.

    Without waits only what was found for the same two costs counts; else a higher cost never hurts.
    """
    a, b, pair, mark = m.excess[i], m.excess[j], pair_index(i, j), m.tree * EXCESSES
    if m.strict:
        if m.strict_verdicts[pair, a, b] < 2 * m.tree:
            m.strict_verdicts[pair, a, b] = 2 * m.tree + _can_pass(m, i, j)
        return m.strict_verdicts[pair, a, b] % 2 == 1
    if m.too_little[pair, a] >= mark + b:
        return False
    if m.enough[pair, a] >= mark + EXCESSES - 1 - b:
        return True
    possible = _can_pass(m, i, j)
    for excess in range(EXCESSES):
        if possible and excess >= a:
            m.enough[pair, excess] = max(m.enough[pair, excess], mark + EXCESSES - 1 - b)
        elif not possible and excess <= a:
            m.too_little[pair, excess] = max(m.too_little[pair, excess], mark + b)
    return possible


@njit
def _can_pass(m, i, j):
    last = last_meeting(m, i, j)
    if last == 0:
        return True
    m.work += 10
    first = 1
    while not _meet_at(m, i, j, first):
        first += 1
    return _fill(m, PAIRS, i, j, first - 1, last)


@njit
def fill_pair(m, i, j):
    """Fill the table of a pair that can finish; False if the two never meet."""
    pair, last = pair_index(i, j), last_meeting(m, i, j)
    if last == 0:
        return False
    key = ((m.tree * 2 + m.strict) * EXCESSES + m.excess[i]) * EXCESSES + m.excess[j]
    if m.table_keys[pair] != key:
        m.table_keys[pair] = key
        _fill(m, pair, i, j, 0, last)
        m.table_ends[pair] = last
    return True


@njit
def _fill(m, pair, i, j, first, last):
    """Fill, from step `last` back to `first`, for each cell of i the cells of j with which both finish.

    False if nothing is left at a step. After the last meeting nothing is in the way.
    """
    table, spread = m.finish[pair], m.spread
    mine = m.diagrams[i, 2 * m.excess[i] + m.strict]
    yours = m.diagrams[j, 2 * m.excess[j] + m.strict]
    my_cost, your_cost = allowed_cost(m, i), allowed_cost(m, j)
    for step in range(last, first - 1, -1):
        here, there = min(step, my_cost), min(step, your_cost)
        rest_low, rest_high = mine[here, 0], mine[here, 1]
        alive = False
        while (rest_low | rest_high) != NONE:
            cell = lowest(rest_low, rest_high)
            cell_low, cell_high = bit(cell)
            rest_low &= ~cell_low
            rest_high &= ~cell_high
            low, high = yours[there, 0] & ~cell_low, yours[there, 1] & ~cell_high
            if step < last:
                able_low, able_high = _partners(m, table, mine, cell, step, my_cost, your_cost)
                low &= able_low
                high &= able_high
            table[step, cell, 0], table[step, cell, 1] = low, high
            alive |= (low | high) != NONE
            if step <= your_cost:
                low, high = within_a_step(m, low, high)
            spread[step % 2, cell, 0], spread[step % 2, cell, 1] = low, high
        if not alive:
            return False
    return True


@njit
def _partners(m, table, mine, cell, step, my_cost, your_cost):
    """Cells from which the second rank can go on when the first leaves `cell` at `step`."""
    low, high = bit(cell)
    next_low, next_high = low, high
    if step < my_cost:
        next_low, next_high = within_a_step(m, low, high)
        next_low &= mine[step + 1, 0]
        next_high &= mine[step + 1, 1]
    able_low, able_high = NONE, NONE
    while (next_low | next_high) != NONE:
        target = lowest(next_low, next_high)
        target_low, target_high = bit(target)
        next_low &= ~target_low
        next_high &= ~target_high
        from_low, from_high = m.spread[(step + 1) % 2, target, 0], m.spread[(step + 1) % 2, target, 1]
        ends_low, ends_high = table[step + 1, target, 0], table[step + 1, target, 1]
        if target != cell and step < your_cost and holds(ends_low, ends_high, cell):
            # who comes from `target` into `cell` would swap
            out_low, out_high = neighbours(m, target_low, target_high)
            if ((out_low & ends_low & ~low) | (out_high & ends_high & ~high)) == NONE:
                from_low &= ~target_low
                from_high &= ~target_high
        able_low |= from_low
        able_high |= from_high
    return able_low, able_high
