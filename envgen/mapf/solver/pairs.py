"""What every two agents, taken alone, can finish within their excesses: tables over diagrams, compiled."""

from envgen.mapf.compiled import compiled
from envgen.mapf.solver.bitboard import NONE, holds, lowest, neighbours, ones, within_a_step, word_pair
from envgen.mapf.solver.diagrams import LEVELS, NODES, PAIRS, STAMP, allowed_cost, pair_index


@compiled
def _meet_at(first, first_cost, second, second_cost, step):
    """Whether two MDDs share a cell at a step, or could swap cells on the way to it."""
    i, j = min(step, first_cost), min(step, second_cost)
    if ((first[i, 0] & second[j, 0]) | (first[i, 1] & second[j, 1])) != NONE:
        return True
    before_i, before_j = min(step - 1, first_cost), min(step - 1, second_cost)
    if ((first[i, 0] & second[before_j, 0]) | (first[i, 1] & second[before_j, 1])) == NONE:
        return False
    return ((first[before_i, 0] & second[j, 0]) | (first[before_i, 1] & second[j, 1])) != NONE


@compiled
def last_meeting_step(space, i, j, strict):
    """The last step at which the MDDs of two agents meet; 0 if they never do."""
    first, second = space.mdds[i, 2 * space.excess[i] + strict], space.mdds[j, 2 * space.excess[j] + strict]
    first_cost, second_cost = allowed_cost(space, i), allowed_cost(space, j)
    step = max(first_cost, second_cost)
    while step > 0 and not _meet_at(first, first_cost, second, second_cost, step):
        step -= 1
    return step


@compiled
def _fill_table(space, pair, listed, other, steps, strict, stride, free_low, free_high):
    """Fill a table backwards from the last of `steps` (first, last meeting, last).

    Agent `listed` cell by cell, `other` as a set; False if nothing is left at a step.
    """
    first_step, last_meeting, last_step = steps
    table, spread = space.tables[pair], space.spread
    listed_mdd = space.mdds[listed, 2 * space.excess[listed] + strict]
    other_mdd = space.mdds[other, 2 * space.excess[other] + strict]
    listed_cost, other_cost = allowed_cost(space, listed), allowed_cost(space, other)
    for step in range(last_step, first_step - 1, -1):
        here, there = min(step, listed_cost), min(step + 1, listed_cost)
        rest_low, rest_high = listed_mdd[here, 0], listed_mdd[here, 1]
        mine_low, mine_high = other_mdd[min(step, other_cost), 0], other_mdd[min(step, other_cost), 1]
        alive = False
        while (rest_low | rest_high) != NONE:
            cell = lowest(rest_low, rest_high)
            cell_low, cell_high = word_pair(cell)
            rest_low &= ~cell_low
            rest_high &= ~cell_high
            partners_low, partners_high = mine_low & ~cell_low, mine_high & ~cell_high
            if step < last_meeting:
                next_low, next_high = cell_low, cell_high
                if step < listed_cost:
                    next_low, next_high = within_a_step(
                        cell_low, cell_high, strict, stride, free_low, free_high
                    )
                    next_low &= listed_mdd[there, 0]
                    next_high &= listed_mdd[there, 1]
                able_low, able_high = NONE, NONE
                while (next_low | next_high) != NONE:
                    target = lowest(next_low, next_high)
                    target_low, target_high = word_pair(target)
                    next_low &= ~target_low
                    next_high &= ~target_high
                    from_low, from_high = spread[(step + 1) & 1, target, 0], spread[(step + 1) & 1, target, 1]
                    ends_low, ends_high = table[step + 1, target, 0], table[step + 1, target, 1]
                    if holds(ends_low, ends_high, cell) and target != cell and step < other_cost:
                        out_low, out_high = neighbours(target_low, target_high, stride, free_low, free_high)
                        if ((out_low & ends_low & ~cell_low) | (out_high & ends_high & ~cell_high)) == NONE:
                            from_low &= ~target_low
                            from_high &= ~target_high
                    able_low |= from_low
                    able_high |= from_high
                partners_low &= able_low
                partners_high &= able_high
            table[step, cell, 0] = partners_low
            table[step, cell, 1] = partners_high
            alive |= (partners_low | partners_high) != NONE
            if step <= last_meeting:
                near_low, near_high = partners_low, partners_high
                if step <= other_cost:
                    near_low, near_high = within_a_step(
                        partners_low, partners_high, strict, stride, free_low, free_high
                    )
                spread[step & 1, cell, 0] = near_low
                spread[step & 1, cell, 1] = near_high
        if not alive:
            return False
    return True


@compiled
def pair_can_finish(space, i, j, strict, stride, free_low, free_high):
    """Whether agents i < j can both finish within their excesses, taken alone.

    More excess never hurts, so what is known of one pair of excesses decides others; with `strict` only
    itself.
    """
    a, b = space.excess[i], space.excess[j]
    pair = pair_index(i, j)
    stamp = space.counters[STAMP] << 8
    if space.short[pair, a] >= stamp | b:
        return False
    if strict:
        known = space.strict_verdicts[pair, a, b]
        if known >= stamp:
            return known & 1 == 1
    elif space.enough[pair, a] >= stamp | (255 - b):
        return True
    possible = _can_pass(space, i, j, strict, stride, free_low, free_high)
    # No branches in these loops, for the compiler to take many levels at a time.
    if strict:
        space.strict_verdicts[pair, a, b] = stamp | (1 if possible else 0)
    elif possible:
        for more in range(LEVELS):
            space.enough[pair, more] = max(space.enough[pair, more], stamp | (255 - b) if more >= a else 0)
    else:
        for less in range(LEVELS):
            space.short[pair, less] = max(space.short[pair, less], stamp | b if less <= a else 0)
    return possible


@compiled
def _can_pass(space, i, j, strict, stride, free_low, free_high):
    """Whether two agents can finish.

    Only the steps from their first meeting to their last matter, and either may be the one that is listed.
    """
    last = last_meeting_step(space, i, j, strict)
    if last == 0:
        return True
    first, second = space.mdds[i, 2 * space.excess[i] + strict], space.mdds[j, 2 * space.excess[j] + strict]
    first_cost, second_cost = allowed_cost(space, i), allowed_cost(space, j)
    step = 1
    while not _meet_at(first, first_cost, second, second_cost, step):
        step += 1
    wider = 0
    for at in range(step, last + 1):
        wider += ones(first[min(at, first_cost), 0], first[min(at, first_cost), 1])
        wider -= ones(second[min(at, second_cost), 0], second[min(at, second_cost), 1])
    listed, other = (j, i) if wider > 0 else (i, j)
    space.counters[NODES] += 10
    return _fill_table(
        space, PAIRS, listed, other, (step - 1, last, last), strict, stride, free_low, free_high
    )


@compiled
def ready_table(space, i, j, last_meeting, strict, stride, free_low, free_high):
    """Fill the table of a pair that can finish within its excesses, if it holds others."""
    pair = pair_index(i, j)
    key = ((space.counters[STAMP] * 2 + strict) * LEVELS + space.excess[i]) * LEVELS + space.excess[j]
    if space.table_keys[pair] != key:
        space.table_keys[pair] = key
        steps = 0, last_meeting, max(allowed_cost(space, i), allowed_cost(space, j))
        _fill_table(space, pair, i, j, steps, strict, stride, free_low, free_high)
