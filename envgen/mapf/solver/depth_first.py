"""Joint plans of sets of agents in their diagrams, compiled: depth-first search, given up after a while.

The agents of a set are its members, listed in `members` of the working memory.
"""

import numpy as np

from envgen.mapf.compiled import compiled
from envgen.mapf.solver.bitboard import NONE, lowest, within_a_step, word_pair
from envgen.mapf.solver.diagrams import (
    AGENTS,
    ANY_WAITS,
    FOUND,
    GENERATION,
    GIVEN_UP,
    HORIZON,
    NODE_LIMIT,
    NODES,
    NOT_FOUND,
    VISITED,
    allowed_cost,
    pair_index,
)


@compiled
def last_step(space, count):
    """The last step at which a member may arrive."""
    last = 0
    for rank in range(count):
        last = max(last, allowed_cost(space, space.members[rank]))
    return last


@compiled
def options(space, rank, row, step, strict, stride, free_low, free_high):
    """Cells that member `rank` may enter at `step`, given the members before it.

    Their positions are in `row` and the one before.
    """
    agent = space.members[rank]
    before = space.position[row - 1, rank]
    cost = allowed_cost(space, agent)
    low, high = word_pair(before)
    if step <= cost:
        near_low, near_high = within_a_step(low, high, strict, stride, free_low, free_high)
        mdd = space.mdds[agent, 2 * space.excess[agent] + strict]
        low = near_low & mdd[step, 0]
        high = near_high & mdd[step, 1]
    for earlier in range(rank):
        other = space.members[earlier]
        target = space.position[row, earlier]
        pair = pair_index(other, agent)
        if space.meets[pair] and step <= max(cost, allowed_cost(space, other)):
            low &= space.tables[pair, step, target, 0]
            high &= space.tables[pair, step, target, 1]
        if target == before:
            gone_low, gone_high = word_pair(space.position[row - 1, earlier])
            low &= ~gone_low
            high &= ~gone_high
    space.choices[row, rank, 0] = low
    space.choices[row, rank, 1] = high


@compiled
def _seen(space, count, step):
    """Mark the joint position at `step`; True if it was marked before in this search."""
    key = np.uint64(space.counters[GENERATION])
    for rank in range(count):
        key = (key << np.uint64(7)) | np.uint64(space.position[step, rank])
    key = (key << np.uint64(7 * (AGENTS - count) + 8)) | np.uint64(step)
    key = (key << np.uint64(7)) | np.uint64(space.used[step])  # at most the excess, below LEVELS
    mixed = key * np.uint64(0x9E3779B97F4A7C15)
    slot = np.int64(mixed >> np.uint64(64 - 15))
    for _ in range(16):
        if space.visited[slot] == key:
            return True
        if space.visited[slot] >> np.uint64(50) != np.uint64(space.counters[GENERATION]):
            break  # left by an earlier search
        slot = (slot + 1) & (VISITED - 1)
    space.visited[slot] = key
    return False


@compiled
def _forget_seen(space):
    space.counters[GENERATION] += 1
    if space.counters[GENERATION] == 1 << 14:
        space.visited[:] = NONE
        space.counters[GENERATION] = 1


@compiled
def _waiting(space, count, step):
    """How many members wait at `step`: stay where they were, before they may have arrived."""
    waiting = 0
    for rank in range(count):
        stayed = space.position[step, rank] == space.position[step - 1, rank]
        waiting += stayed and step <= allowed_cost(space, space.members[rank])
    return waiting


@compiled
def joint(space, count, waits, nodes, strict, stride, free_low, free_high):
    """Depth-first search for a joint plan of the members inside their MDDs with at most `waits` waits.

    Fills `paths`. GIVEN_UP after `nodes` joint moves, or at the node limit of the board.
    """
    last = last_step(space, count)
    for rank in range(count):
        space.position[0, rank] = space.starts[space.members[rank]]
    _forget_seen(space)
    space.used[0] = 0
    if last == 0:
        step = 0
    else:
        step, rank = 1, 0
        options(space, 0, 1, 1, strict, stride, free_low, free_high)
        while True:
            low, high = space.choices[step, rank, 0], space.choices[step, rank, 1]
            if (low | high) == NONE:
                rank -= 1
                if rank < 0:
                    step -= 1
                    if step == 0:
                        return NOT_FOUND
                    rank = count - 1
                continue
            stay_low, stay_high = word_pair(space.position[step - 1, rank])
            cell = space.position[step - 1, rank]
            if (low & ~stay_low) != NONE or (high & ~stay_high) != NONE:
                cell = lowest(low & ~stay_low, high & ~stay_high)
            cell_low, cell_high = word_pair(cell)
            space.choices[step, rank, 0] = low & ~cell_low
            space.choices[step, rank, 1] = high & ~cell_high
            space.position[step, rank] = cell
            if rank < count - 1:
                rank += 1
                options(space, rank, step, step, strict, stride, free_low, free_high)
                continue
            space.counters[NODES] += 1
            nodes -= 1
            if nodes < 0 or space.counters[NODES] > space.counters[NODE_LIMIT]:
                return GIVEN_UP
            space.used[step] = space.used[step - 1]
            if waits != ANY_WAITS:
                space.used[step] += _waiting(space, count, step)
                if space.used[step] > waits:
                    continue
            if step == last:
                break
            if _seen(space, count, step):
                continue
            step += 1
            rank = 0
            options(space, 0, step, step, strict, stride, free_low, free_high)
    for rank in range(count):
        agent = space.members[rank]
        for at in range(space.counters[HORIZON] + 1):
            space.paths[agent, at] = space.position[min(at, step), rank]
    return FOUND
