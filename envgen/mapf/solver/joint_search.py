"""Uniform-cost search over joint positions, complete and compiled: the optimum of any solvable group.

Costs are excesses over distances (A* with distances as its bound), ties go by waits, and positions are
expanded partially (Goldenberg et al. 2014). Used where the cost tree gives up, and as its independent check.
"""

import numpy as np

from envgen.mapf.compiled import compiled
from envgen.mapf.solver.columns import LONGEST_PLAN
from envgen.mapf.solver.memory import ARRIVED, EXCESSES, FOUND, FULL, MOST_WAITS, TOO_LONG
from envgen.mapf.solver.positions import clear, next_bucket, pack_states, pop, push, slot_of, unpack_states


@compiled
def search_jointly(m, entries):
    """The optimum of a group after `prove_solvable`: (FOUND + excess, fewest waits) with the plan in `plan`.

    (FULL, 0) if `entries` joint positions are too few, (TOO_LONG, 0) if a plan would pass LONGEST_PLAN steps
    or an excess of EXCESSES.
    """
    slots, result = min(1 << 16, entries), (FULL, 0)
    while result[0] == FULL and slots <= entries:
        clear(m, slots)
        result = _best_first(m)
        slots *= 16
    return result


@compiled
def _best_first(m):
    """Least excess first, then fewest waits; a position comes back for each excess that a step may add."""
    for agent in range(m.agents):
        m.after[agent] = m.starts[agent]
    status, bucket = _reach(m, 0, -1), 0
    while status == FOUND and bucket >= 0:
        slot = pop(m, bucket)
        level, waits = bucket // MOST_WAITS, bucket % MOST_WAITS
        if m.waiting[slot] == level and m.costs[slot] % MOST_WAITS == waits:
            unpack_states(m.keys[slot], m.before, m.agents)
            if _all_on_goals(m):
                return (FOUND + level if _trace(m, slot) == FOUND else TOO_LONG), waits
            m.waiting[slot] = level + 1
            status = _expand(m, slot, level)
            more = level + 1 < min(EXCESSES, m.costs[slot] // MOST_WAITS + 2 * m.agents + 1)
            if status == FOUND and more and not push(m, slot, bucket + MOST_WAITS):
                status = FULL
        bucket = next_bucket(m, bucket)
    return (TOO_LONG if status == FOUND else status), 0


@compiled
def _all_on_goals(m):
    all_there = True
    for agent in range(m.agents):
        all_there = all_there and _cell_of(m, agent, m.before[agent]) == m.goals[agent]
    return all_there


@compiled
def _cell_of(m, agent, state):
    """The cell of an agent, whose state is its cell, or ARRIVED when it rests on its goal for good."""
    return m.goals[agent] if state == ARRIVED else state


@compiled
def _reach(m, cost, parent):
    """Enter the joint position `after`, reached at excess * MOST_WAITS + waits; a status."""
    slot, seen = slot_of(m, pack_states(m.after, m.agents))
    if slot == FULL:
        return FULL
    if seen and m.costs[slot] <= cost:
        return FOUND
    m.costs[slot], m.parents[slot], m.waiting[slot] = cost, parent, cost // MOST_WAITS
    return FOUND if push(m, slot, cost) else FULL


@compiled
def _move(m, agent, choice):
    """Target, excess and waits of an agent's move from its state `before`; excess EXCESSES if it has none."""
    state = m.before[agent]
    if state == ARRIVED:
        return ARRIVED, 0 if choice == 0 else EXCESSES, 0
    if choice < m.degree[state]:
        near = m.near[state, choice]
        return near, 1 + m.moves_to_goal[agent, near] - m.moves_to_goal[agent, state], 0
    if choice == m.degree[state]:
        return state, 1, 1
    return ARRIVED, 0 if choice == 5 and state == m.goals[agent] else EXCESSES, 0


@compiled
def _expand(m, slot, level):
    """Enter all joint positions that follow `before` with an excess of `level`; a status."""
    cost, agent = np.int64(m.costs[slot]), 0
    budget = level - cost // MOST_WAITS
    m.choice[0] = m.spent[0] = m.waited[0] = 0
    while agent >= 0:
        target, excess, waits = _move(m, agent, m.choice[agent])
        m.choice[agent] += 1
        if m.choice[agent] > 6:
            agent -= 1
            continue
        spent = m.spent[agent] + excess
        least = budget - 2 * (m.agents - 1 - agent)
        if spent > budget or spent < least or not _is_free(m, agent, target):
            continue
        m.after[agent], agent = target, agent + 1
        m.spent[agent], m.waited[agent] = spent, m.waited[agent - 1] + waits
        if agent < m.agents:
            m.choice[agent] = 0
            continue
        agent -= 1
        status = _reach(m, cost + spent * MOST_WAITS + m.waited[m.agents], slot)
        if status != FOUND:
            return status
    return FOUND


@compiled
def _is_free(m, agent, target):
    """Whether an agent's move collides with none of the agents before it."""
    here, there = _cell_of(m, agent, m.before[agent]), _cell_of(m, agent, target)
    for other in range(agent):
        taken = _cell_of(m, other, m.after[other])
        if taken == there or (taken == here and _cell_of(m, other, m.before[other]) == there):
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
            m.plan[agent, step] = _cell_of(m, agent, m.before[agent])
        at = np.int64(m.parents[at])
    return FOUND
