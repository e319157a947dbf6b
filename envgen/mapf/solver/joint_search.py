"""Search over joint positions, guided, complete and compiled: the optimum of any solvable group of agents.

A* on the excess over the sum of distances, ties by waits, with positions expanded partially (Goldenberg et
al. 2014). The bound is a pattern database: what every two agents, and every agent past those that have
arrived for good, must exceed their distances by. Used where the cost tree gives up, and as its independent
check.
"""

from typing import NamedTuple

import numpy as np

from envgen.mapf.compiled import compiled, inlined
from envgen.mapf.solver.bitboard import NONE
from envgen.mapf.solver.component import (
    COUNT,
    EXCESS,
    EXCESSES,
    FREE,
    FULL,
    LONGEST_PLAN,
    MOST_WAITS,
    NEVER,
    PLAN_LENGTH,
    TARGET,
    TOO_LONG,
    WAITS,
    arrived_in,
    cell_of,
    everyone_arrived,
    fill_pair,
    know_alone,
    list_moves,
    place,
)
from envgen.mapf.solver.diagrams import AGENTS, FOUND, pair_index

GENERATION, ENTRIES, USED, OPENED, HIGHEST = range(5)
_KEY_BITS = np.uint64(7 * AGENTS)


class JointSpace(NamedTuple):
    """Working memory of one group."""

    component: np.void
    counters: np.ndarray
    position: np.ndarray
    """[before or after, agent]: states of the joint move at hand."""
    choice: np.ndarray
    spent: np.ndarray
    waited: np.ndarray
    keys: np.ndarray
    """The table of joint positions seen, by hash; the three below belong to its slots."""
    costs: np.ndarray
    parents: np.ndarray
    waiting: np.ndarray
    """The least excess in the end of the successors that a slot in the open list has still to enter."""
    node_slots: np.ndarray
    node_links: np.ndarray
    heads: np.ndarray


def joint_space(component: np.void, entries: int) -> JointSpace:
    """Fresh working memory for `entries` joint positions, a power of two; 36 bytes an entry and 500 kB."""
    space = JointSpace(
        component=component,
        counters=np.zeros(5, np.int64),
        position=np.zeros((2, AGENTS), np.int64),
        choice=np.zeros(AGENTS, np.int64),
        spent=np.zeros(AGENTS + 1, np.int64),
        waited=np.zeros(AGENTS + 1, np.int64),
        keys=np.zeros(entries, dtype=np.uint64),
        costs=np.zeros(entries, dtype=np.int32),
        parents=np.zeros(entries, dtype=np.int32),
        waiting=np.zeros(entries, dtype=np.int32),
        node_slots=np.zeros(2 * entries, dtype=np.int32),
        node_links=np.zeros(2 * entries, dtype=np.int32),
        heads=np.full(EXCESSES * MOST_WAITS, -1, dtype=np.int64),
    )
    space.counters[ENTRIES] = entries
    return space


@compiled
def _bound(component, states):
    """A lower bound of the excess from here: the best of disjoint pairs, and of all pairs shared evenly."""
    count = component.counters[COUNT]
    arrived = arrived_in(component, states)
    know_alone(component, arrived)
    total, every, active = 0, 0, 0
    first, second = 0, 0
    for agent in range(count):
        if (arrived >> agent) & 1 == 0:
            active += 1
            total += component.alone[arrived, agent, states[agent]]
    if total >= NEVER:
        return NEVER
    for j in range(1, count):
        if (arrived >> j) & 1:
            continue
        own_j = component.alone[arrived, j, states[j]]
        for i in range(j):
            if (arrived >> i) & 1:
                continue
            both = component.alone[arrived, i, states[i]] + own_j
            together = np.int64(component.pairs[pair_index(i, j), states[i], states[j]])
            if together >= NEVER:
                return NEVER
            gain = max(0, together - both)
            every += both + gain
            first = max(first, gain)
            if gain == 0:
                continue
            for m in range(1, j):
                if m == i or (arrived >> m) & 1:
                    continue
                for k in range(m):
                    if k == i or (arrived >> k) & 1:
                        continue
                    rest = np.int64(component.pairs[pair_index(k, m), states[k], states[m]])
                    rest -= component.alone[arrived, k, states[k]] + component.alone[arrived, m, states[m]]
                    second = max(second, gain + max(0, rest))
    bound = total + max(first, second)
    if active > 1:
        bound = max(bound, (every + active - 2) // (active - 1))
    return bound


@inlined
def _slot(space, key):
    """Where `key` is in the table, or the free slot where it belongs."""
    mask = space.counters[ENTRIES] - 1
    slot = np.int64((key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)) & mask
    while space.keys[slot] != key and space.keys[slot] >> _KEY_BITS == np.uint64(space.counters[GENERATION]):
        slot = (slot + 1) & mask
    return slot


@compiled
def _clear(space):
    """Empty the table and the open list."""
    space.heads[: space.counters[HIGHEST] + 1] = -1
    space.counters[HIGHEST] = space.counters[USED] = space.counters[OPENED] = 0
    space.counters[GENERATION] += 1
    if space.counters[GENERATION] >= 1 << 29:
        space.keys[:] = NONE
        space.counters[GENERATION] = 1


@inlined
def _read_key(space, key, states):
    for agent in range(space.component.counters[COUNT] - 1, -1, -1):
        states[agent] = np.int64(key & np.uint64(127))
        key >>= np.uint64(7)


@inlined
def _open(space, slot, bucket):
    """Put a slot into the open list; False if the list is full."""
    node = space.counters[OPENED]
    if node == len(space.node_slots):
        return False
    space.counters[HIGHEST] = max(space.counters[HIGHEST], bucket)
    space.node_slots[node] = slot
    space.node_links[node] = space.heads[bucket]
    space.heads[bucket] = node
    space.counters[OPENED] = node + 1
    return True


@inlined
def _reach(space, states, cost, bound, parent):
    """Enter a joint position reached at `cost` whose excess will be at least `bound`; a status.

    `cost` is excess * MOST_WAITS + waits.
    """
    key = np.uint64(space.counters[GENERATION]) << np.uint64(7 * (AGENTS - space.component.counters[COUNT]))
    for agent in range(space.component.counters[COUNT]):
        key = (key << np.uint64(7)) | np.uint64(states[agent])
    slot = _slot(space, key)
    if space.keys[slot] == key:
        if space.costs[slot] <= cost:
            return FOUND
    else:
        space.counters[USED] += 1
        if space.counters[USED] > space.counters[ENTRIES] * 7 // 10:
            return FULL
        space.keys[slot] = key
    if bound >= EXCESSES:
        return TOO_LONG
    space.costs[slot] = cost
    space.parents[slot] = parent
    space.waiting[slot] = bound
    return FOUND if _open(space, slot, bound * MOST_WAITS + cost % MOST_WAITS) else FULL


@compiled
def _expand(space, slot, level, reach):
    """Enter all joint positions that follow `slot` with an excess of at most `reach` in the end.

    `level` is the least excess now.
    """
    component = space.component
    count, free = component.counters[COUNT], component.counters[FREE]
    before, after = space.position[0], space.position[1]
    _read_key(space, space.keys[slot], before)
    cost = np.int64(space.costs[slot])
    budget = reach - cost // MOST_WAITS
    agent = 0
    space.choice[0] = space.spent[0] = space.waited[0] = 0
    while agent >= 0:
        rank = space.choice[agent]
        space.choice[agent] = rank + 1
        move = component.moves[agent, before[agent], rank]
        spent = space.spent[agent] + move[EXCESS]
        if rank >= component.move_count[agent, before[agent]] or spent > budget:
            agent -= 1
            continue
        target = move[TARGET]
        here, there = cell_of(component, agent, before[agent]), cell_of(component, agent, target)
        clear = True
        for other in range(agent):
            taken = cell_of(component, other, after[other])
            meet = taken == there or (taken == here and cell_of(component, other, before[other]) == there)
            moving = target != free and after[other] != free
            if meet or (moving and spent + component.pairs[pair_index(other, agent), taken, there] > budget):
                clear = False
                break
        if not clear:
            continue
        after[agent] = target
        space.spent[agent + 1] = spent
        space.waited[agent + 1] = space.waited[agent] + move[WAITS]
        if agent < count - 1:
            agent += 1
            space.choice[agent] = 0
            continue
        bound = _bound(component, after)
        if spent + bound <= budget:
            reached = cost + spent * MOST_WAITS + space.waited[count]
            status = _reach(space, after, reached, max(level, cost // MOST_WAITS + spent + bound), slot)
            if status != FOUND:
                return status
    return FOUND


@compiled
def _enter_starts(space):
    """Enter the starts: an agent that starts on its goal may have arrived for good; a status."""
    component = space.component
    count, states = component.counters[COUNT], space.position[1]
    for resting in range(1 << count):
        leaving, possible = 0, True
        for agent in range(count):
            home = component.start[agent] == component.goal[agent]
            stays = (resting >> agent) & 1 == 1
            possible = possible and (home or not stays)
            leaving += home and not stays
            states[agent] = component.counters[FREE] if stays else component.start[agent]
        if possible:
            bound = _bound(component, states)
            if bound < NEVER:
                status = _reach(space, states, 2 * leaving * MOST_WAITS, 2 * leaving + bound, -1)
                if status != FOUND:
                    return status
    return FOUND


@compiled
def _best_first(space):
    """A* over joint positions, least excess first, then fewest waits.

    Returns (FOUND + excess, waits) with `plan` filled, or a status. A position is expanded once for every
    excess that its successors may add, as in enhanced partial expansion A*.
    """
    component = space.component
    _clear(space)
    status = _enter_starts(space)
    bucket = 0
    while status == FOUND and bucket <= space.counters[HIGHEST]:
        node = space.heads[bucket]
        if node < 0:
            bucket += 1
            continue
        space.heads[bucket] = space.node_links[node]
        slot = space.node_slots[node]
        level = bucket // MOST_WAITS
        if space.waiting[slot] != level or space.costs[slot] % MOST_WAITS != bucket % MOST_WAITS:
            continue  # entered again at a lower cost since
        _read_key(space, space.keys[slot], space.position[0])
        if everyone_arrived(component, space.position[0]):
            waits = _trace(space, slot)
            return (FOUND + level if waits >= 0 else waits), waits
        reach = level + level // 2
        space.waiting[slot] = reach + 1
        status = _expand(space, slot, level, reach)
        again = bucket + (reach + 1 - level) * MOST_WAITS
        if status == FOUND and reach + 1 < EXCESSES and not _open(space, slot, again):
            status = FULL
    return (TOO_LONG if status == FOUND else status), 0


@compiled
def _trace(space, slot):
    """Write the plan that leads to `slot`; its waits, or TOO_LONG."""
    component = space.component
    length = -1
    at = slot
    while at >= 0:
        length += 1
        at = space.parents[at]
    if length >= LONGEST_PLAN:
        return TOO_LONG
    component.counters[PLAN_LENGTH] = length
    at = slot
    for step in range(length, -1, -1):
        _read_key(space, space.keys[at], component.plan[step])
        for agent in range(component.counters[COUNT]):
            component.plan[step, agent] = cell_of(component, agent, component.plan[step, agent])
        at = space.parents[at]
    return np.int64(space.costs[slot]) % MOST_WAITS


@compiled
def solve_jointly(space, count, stride, free_low, free_high):
    """The optimum of one solvable group: (FOUND + excess, fewest waits) with the plan in the component.

    `starts` and `goals` of the component are bit indices in one component of the free cells. (FULL, 0) asks
    for a larger table, (TOO_LONG, 0) says that a plan would pass LONGEST_PLAN steps or an excess of EXCESSES.
    """
    component = space.component
    place(component, count, stride, free_low, free_high)
    list_moves(component)
    for j in range(1, count):
        for i in range(j):
            fill_pair(component, i, j)
    return _best_first(space)
