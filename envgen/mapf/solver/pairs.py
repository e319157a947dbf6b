"""What every two agents, taken alone, can finish within their excesses: tables over diagrams, compiled."""

from envgen.mapf.compiled import compiled
from envgen.mapf.solver.bitboard import (
    NO_CELLS,
    both,
    either,
    is_empty,
    lowest,
    only,
    read,
    within_a_step,
    without,
    write,
)
from envgen.mapf.solver.diagrams import allowed_cost, pair_index, without_swap
from envgen.mapf.solver.memory import LEVELS, PAIRS


@compiled
def _where(m, agent, step):
    """Cells of an agent's diagram at a step; it rests after its cost."""
    return read(m.diagrams[agent, m.excess[agent], min(step, allowed_cost(m, agent))])


@compiled
def _meet_at(m, i, j, step):
    """Whether two diagrams share a cell at a step, or could swap cells on the way to it."""
    first, second = _where(m, i, step), _where(m, j, step)
    if not is_empty(both(first, second)):
        return True
    if is_empty(both(first, _where(m, j, step - 1))):
        return False
    return not is_empty(both(_where(m, i, step - 1), second))


@compiled
def _last_meeting(m, i, j):
    """The last step at which the diagrams of two agents meet; 0 if they never do."""
    step = max(allowed_cost(m, i), allowed_cost(m, j))
    while step > 0 and not _meet_at(m, i, j, step):
        step -= 1
    return step


@compiled
def _fill_table(m, pair, listed, other, first_step, last_meeting, last_step):
    """Fill a table backwards: agent `listed` cell by cell, `other` as a set.

    False if nothing is left at a step.
    """
    table, spread = m.tables[pair], m.spread
    listed_cost, other_cost = allowed_cost(m, listed), allowed_cost(m, other)
    for step in range(last_step, first_step - 1, -1):
        rest, mine, alive = _where(m, listed, step), _where(m, other, step), False
        while not is_empty(rest):
            cell = lowest(rest)
            here = only(cell)
            rest, partners = without(rest, here), without(mine, here)
            if step < last_meeting:
                targets = here
                if step < listed_cost:
                    targets = both(within_a_step(m, here), _where(m, listed, step + 1))
                able = NO_CELLS
                while not is_empty(targets):
                    target = lowest(targets)
                    targets = without(targets, only(target))
                    sources, ends = read(spread[(step + 1) & 1, target]), read(table[step + 1, target])
                    if step < other_cost:
                        sources = without_swap(m, ends, sources, target, cell)
                    able = either(able, sources)
                partners = both(partners, able)
            write(table[step, cell], partners)
            alive = alive or not is_empty(partners)
            if step <= last_meeting:
                write(spread[step & 1, cell], within_a_step(m, partners) if step <= other_cost else partners)
        if not alive:
            return False
    return True


@compiled
def pair_can_finish(m, i, j):
    """Whether agents i < j can both finish within their excesses, taken alone.

    More excess never hurts, so the verdict on two excesses decides others.
    """
    a, b, pair, stamp = m.excess[i], m.excess[j], pair_index(i, j), m.stamp << 8
    if m.short[pair, a] >= stamp | b:
        return False
    if m.enough[pair, a] >= stamp | (255 - b):
        return True
    possible = _can_pass(m, i, j)
    # No branches in these loops, for the compiler to take many levels at a time.
    if possible:
        for more in range(LEVELS):
            m.enough[pair, more] = max(m.enough[pair, more], stamp | (255 - b) if more >= a else 0)
    else:
        for less in range(LEVELS):
            m.short[pair, less] = max(m.short[pair, less], stamp | b if less <= a else 0)
    return possible


@compiled
def _can_pass(m, i, j):
    """Whether two agents can finish.

    Only the steps from their first meeting to their last matter.
    """
    last = _last_meeting(m, i, j)
    if last == 0:
        return True
    first = 1
    while not _meet_at(m, i, j, first):
        first += 1
    m.nodes += 10
    return _fill_table(m, PAIRS, i, j, first - 1, last, last)


@compiled
def fill_pair(m, i, j):
    """Fill the table of a pair that can finish, if it holds other excesses; False if the two never meet."""
    pair, last = pair_index(i, j), _last_meeting(m, i, j)
    m.meets[pair] = last > 0
    key = (m.stamp * LEVELS + m.excess[i]) * LEVELS + m.excess[j]
    if last > 0 and m.table_keys[pair] != key:
        m.table_keys[pair] = key
        _fill_table(m, pair, i, j, 0, last, max(allowed_cost(m, i), allowed_cost(m, j)))
    return last > 0
