"""A* over the joint positions of a group: the least excess and, among those plans, the fewest waits.

A position first enters the successors that cost no more excess in the end, and goes back to the open list for
the others (partial expansion, Goldenberg et al. 2014).
"""

import numpy as np
from numba import njit

from envgen.mapf.solver.bounds import bound, possible_cost
from envgen.mapf.solver.memory import ARRIVED, FULL, LEVEL, LONGEST, MAX_COST, NEVER
from envgen.mapf.solver.positions import bucket_of, clear, next_bucket, pop, push, read_slot, slot_of
from envgen.mapf.solver.tables import cell_of, cost_of, fill_tables, state_near


@njit
def plan_jointly(m, least, entries):
    """Plan the members: the least cost, with the paths written.

    No plan may cost less than `least`. NEVER if there is no plan, FULL if `entries` slots are too few.
    """
    fill_tables(m)
    clear(m, entries)
    fits = _enter_starts(m, least)
    bucket = next_bucket(m, 0)
    while fits and bucket >= 0:
        slot = pop(m, bucket)
        cost = np.int64(m.waiting[slot])
        if bucket_of(cost) == bucket:  # else it was entered again at a lower cost
            read_slot(m, slot)
            if _all_arrived(m):
                return cost if _write_paths(m, slot) else FULL
            later = _expand(m, slot, cost, min(MAX_COST, cost // LEVEL * LEVEL + LEVEL - 1))
            m.waiting[slot] = later
            fits = later != FULL and (later > MAX_COST or push(m, slot, bucket_of(later)))
        bucket = next_bucket(m, bucket)
    return NEVER if fits else FULL


@njit
def _all_arrived(m):
    arrived = 0
    for rank in range(m.count):
        arrived += m.before[rank] == ARRIVED
    return arrived == m.count


@njit
def _enter_starts(m, least):
    """Enter the starts; a member that starts on its goal may rest or leave. False if one does not fit."""
    for resting in range(1 << m.count):
        leaving, possible = 0, True
        for rank in range(m.count):
            start, rests = m.start[m.members[rank]], (resting >> rank) & 1 == 1
            possible = possible and (start == m.home[rank] or not rests)
            leaving += start == m.home[rank] and not rests
            m.after[rank] = ARRIVED if rests else start
        if possible and not _enter(m, 2 * leaving * LEVEL, least, -1):
            return False
    return True


@njit
def _enter(m, cost, least, parent):
    """Enter the position `m.after`, reached at `cost`; False if it does not fit.

    A position that cannot end is left out; `least` is another lower bound of where it ends.
    """
    least = max(least, cost + bound(m, 0, m.count))
    if least > MAX_COST:
        return True
    slot, seen = slot_of(m)
    if slot == FULL:
        return False
    if seen and m.costs[slot] <= cost:
        return True
    m.costs[slot], m.parents[slot], m.waiting[slot] = cost, parent, least
    return push(m, slot, bucket_of(least))


@njit
def _expand(m, slot, least, limit):
    """Enter the successors of `m.before`, the position of `slot`, that may end within `limit`.

    Returns the least bound of the others, NEVER if there are none, FULL if one does not fit. Ranks move one
    after another; a choice is dropped as soon as the ranks that moved and the others, each by themselves,
    cannot end within `limit`.
    """
    later = NEVER
    for rank in range(m.count):
        m.after[rank] = m.before[rank]
    for rank in range(m.count + 1):
        m.rest[rank] = bound(m, rank, m.count)
    rank = m.way[0] = 0
    m.spent[0] = m.costs[slot]
    while rank >= 0:
        if rank == m.count:
            if not _enter(m, m.spent[rank], least, slot):
                return FULL
            rank -= 1
            continue
        state = m.after[rank] = m.before[rank]
        target = _target(m, rank, state)
        if target < 0:
            rank -= 1
            continue
        m.way[rank] += 1
        if not _is_free(m, rank, target):
            continue
        m.after[rank] = target
        m.spent[rank + 1] = m.spent[rank] + cost_of(m, rank, state, target)
        ends = possible_cost(m.spent[rank + 1] + m.rest[rank + 1] + bound(m, 0, rank + 1))
        if ends > limit:
            later = min(later, max(ends, least))
            continue
        rank += 1
        if rank < m.count:
            m.way[rank] = 0
    return later


@njit
def _target(m, rank, state):
    """The state that a rank tries next: it waits, moves, or arrives for good; -1 if it has tried all."""
    way = m.way[rank]
    if state == ARRIVED:
        return ARRIVED if way == 0 else -1
    ways = m.degree[state] + 1
    if way < ways:
        return state_near(m, state, state, way)
    return ARRIVED if way == ways and m.ahead[rank, state] == 1 else -1


@njit
def _is_free(m, rank, target):
    """Whether a rank's move collides with no move of the ranks before it."""
    here, there = cell_of(m, rank, m.before[rank]), cell_of(m, rank, target)
    for other in range(rank):
        taken = cell_of(m, other, m.after[other])
        if taken == there or (taken == here and cell_of(m, other, m.before[other]) == there):
            return False
    return True


@njit
def _write_paths(m, slot):
    """Write the paths that lead to `slot`; False if they are too long."""
    length, entry = 0, slot
    while m.parents[entry] >= 0:
        length += 1
        entry = m.parents[entry]
    if length >= LONGEST:
        return False
    for step in range(length, -1, -1):
        read_slot(m, slot)
        slot = m.parents[slot]
        for rank in range(m.count):
            agent = m.members[rank]
            m.paths[agent, step] = cell_of(m, rank, m.before[rank])
            if m.before[rank] == ARRIVED:
                m.arrival[agent] = step
    return True
