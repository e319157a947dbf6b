"""Search over joint positions, guided, complete and compiled: the optimum of any solvable group of agents.

A* on the excess over the sum of distances, ties by waits, with positions expanded partially (Goldenberg et
al. 2014). The bound is a pattern database: what every two agents, and every agent past those that have
arrived for good, must exceed their distances by. Used where the cost tree gives up, and as its independent
check.
"""

import numpy as np

from envgen.mapf.compiled import compiled
from envgen.mapf.solver.columns import LONGEST_PLAN
from envgen.mapf.solver.component import NEVER, cell_of, fill_alone, fill_pairs, link_cells, list_moves
from envgen.mapf.solver.diagrams import pair_index
from envgen.mapf.solver.memory import (
    ARRIVED,
    EXCESS,
    EXCESSES,
    FOUND,
    FULL,
    MOST_WAITS,
    TARGET,
    TOO_LONG,
    WAITS,
)
from envgen.mapf.solver.positions import clear, next_bucket, pack_states, pop, push, slot_of, unpack_states


@compiled
def search_jointly(m, entries):
    """The optimum of a solvable group: (FOUND + excess, fewest waits) with the plan in `plan`.

    (FULL, 0) if `entries` joint positions are too few, (TOO_LONG, 0) if a plan would pass LONGEST_PLAN steps
    or an excess of EXCESSES.
    """
    link_cells(m)
    list_moves(m)
    m.alone_filled[:] = 0
    for j in range(1, m.agents):
        for i in range(j):
            fill_pairs(m, i, j)
    slots, result = min(1 << 16, entries), (FULL, 0)
    while result[0] == FULL and slots <= entries:
        clear(m, slots)
        result = _best_first(m)
        slots *= 16
    return result


@compiled
def _best_first(m):
    """A* over joint positions, least excess first, then fewest waits.

    A position is expanded once for every excess that its successors may add, as in enhanced partial expansion
    A*.
    """
    status = _enter_starts(m)
    bucket = next_bucket(m, 0)
    while status == FOUND and bucket >= 0:
        slot = pop(m, bucket)
        level = bucket // MOST_WAITS
        if m.waiting[slot] == level and m.costs[slot] % MOST_WAITS == bucket % MOST_WAITS:
            unpack_states(m.keys[slot], m.before, m.agents)
            if _arrived(m, m.before) == (1 << m.agents) - 1:
                status = _trace(m, slot)
                return (FOUND + level if status == FOUND else status), np.int64(m.costs[slot]) % MOST_WAITS
            reach = level + level // 2
            m.waiting[slot] = reach + 1
            status = _expand(m, slot, level, reach)
            again = bucket + (reach + 1 - level) * MOST_WAITS
            if status == FOUND and reach + 1 < EXCESSES and not push(m, slot, again):
                status = FULL
        bucket = next_bucket(m, bucket)
    return (TOO_LONG if status == FOUND else status), 0


@compiled
def _arrived(m, states):
    """The mask of the agents that have arrived for good."""
    arrived = 0
    for agent in range(m.agents):
        arrived |= (states[agent] == ARRIVED) << agent
    return arrived


@compiled
def _enter_starts(m):
    """Enter the starts: an agent that starts on its goal may have arrived for good; a status."""
    for resting in range(1 << m.agents):
        leaving, possible = 0, True
        for agent in range(m.agents):
            home, stays = m.starts[agent] == m.goals[agent], (resting >> agent) & 1 == 1
            possible = possible and (home or not stays)
            leaving += home and not stays
            m.after[agent] = ARRIVED if stays else m.starts[agent]
        if possible:
            bound = _bound(m)
            if bound < NEVER:
                status = _reach(m, 2 * leaving * MOST_WAITS, 2 * leaving + bound, -1)
                if status != FOUND:
                    return status
    return FOUND


@compiled
def _bound(m):
    """Lower bound of the excess from `after`: the best of disjoint pairs, and of all pairs shared evenly."""
    states, arrived = m.after, _arrived(m, m.after)
    fill_alone(m, arrived)
    alone = m.alone[arrived]
    total, every, active = 0, 0, 0
    first, second = 0, 0
    for agent in range(m.agents):
        if (arrived >> agent) & 1 == 0:
            active += 1
            total += alone[agent, states[agent]]
    if total >= NEVER:
        return NEVER
    for j in range(1, m.agents):
        for i in range(j):
            if (arrived >> i) & 1 or (arrived >> j) & 1:
                continue
            both = alone[i, states[i]] + alone[j, states[j]]
            together = np.int64(m.pairs[pair_index(i, j), states[i], states[j]])
            if together >= NEVER:
                return NEVER
            gain = max(0, together - both)
            every += both + gain
            first = max(first, gain)
            if gain == 0:
                continue
            for k in range(1, j):
                for h in range(k):
                    if i in (h, k) or (arrived >> h) & 1 or (arrived >> k) & 1:
                        continue
                    rest = np.int64(m.pairs[pair_index(h, k), states[h], states[k]])
                    rest -= alone[h, states[h]] + alone[k, states[k]]
                    second = max(second, gain + max(0, rest))
    bound = total + max(first, second)
    if active > 1:
        bound = max(bound, (every + active - 2) // (active - 1))
    return bound


@compiled
def _reach(m, cost, bound, parent):
    """Enter the joint position `after`, reached at `cost`, whose excess will be at least `bound`; a status.

    `cost` is excess * MOST_WAITS + waits.
    """
    slot, seen = slot_of(m, pack_states(m.after, m.agents))
    if slot == FULL:
        return FULL
    if seen and m.costs[slot] <= cost:
        return FOUND
    if bound >= EXCESSES:
        return TOO_LONG
    m.costs[slot], m.parents[slot], m.waiting[slot] = cost, parent, bound
    return FOUND if push(m, slot, bound * MOST_WAITS + cost % MOST_WAITS) else FULL


@compiled
def _expand(m, slot, level, reach):
    """Enter all joint positions that follow `before` with an excess of at most `reach` in the end.

    `level` is the least excess now.
    """
    before, after = m.before, m.after
    cost = np.int64(m.costs[slot])
    budget = reach - cost // MOST_WAITS
    agent = 0
    m.choice[0] = m.spent[0] = m.waited[0] = 0
    while agent >= 0:
        rank = m.choice[agent]
        m.choice[agent] = rank + 1
        move = m.moves[agent, before[agent], rank]
        spent = m.spent[agent] + move[EXCESS]
        if rank >= m.move_count[agent, before[agent]] or spent > budget:
            agent -= 1
            continue
        target = move[TARGET]
        if not _is_free(m, agent, target, budget - spent):
            continue
        after[agent] = target
        m.spent[agent + 1] = spent
        m.waited[agent + 1] = m.waited[agent] + move[WAITS]
        if agent < m.agents - 1:
            agent += 1
            m.choice[agent] = 0
            continue
        bound = _bound(m)
        if spent + bound <= budget:
            reached = cost + spent * MOST_WAITS + m.waited[m.agents]
            status = _reach(m, reached, max(level, cost // MOST_WAITS + spent + bound), slot)
            if status != FOUND:
                return status
    return FOUND


@compiled
def _is_free(m, agent, target, budget):
    """Whether an agent's move collides with none of the agents before it, and leaves every two enough."""
    here, there = cell_of(m, agent, m.before[agent]), cell_of(m, agent, target)
    for other in range(agent):
        taken = cell_of(m, other, m.after[other])
        if taken == there or (taken == here and cell_of(m, other, m.before[other]) == there):
            return False
        moving = target != ARRIVED and m.after[other] != ARRIVED
        if moving and m.pairs[pair_index(other, agent), taken, there] > budget:
            return False
    return True


@compiled
def _trace(m, slot):
    """Write the plan that leads to `slot`; FOUND, or TOO_LONG."""
    length, at = -1, slot
    while at >= 0:
        length += 1
        at = np.int64(m.parents[at])
    if length >= LONGEST_PLAN:
        return TOO_LONG
    m.plan_steps, at = length, slot
    for step in range(length, -1, -1):
        unpack_states(m.keys[at], m.before, m.agents)
        for agent in range(m.agents):
            m.plan[agent, step] = cell_of(m, agent, m.before[agent])
        at = np.int64(m.parents[at])
    return FOUND
