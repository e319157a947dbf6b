"""Joint plans of sets of agents in their diagrams, compiled: a sweep by step, where shorter ways give up.

The agents of a set are its members, listed in `members` of the working memory.
"""

import numpy as np

from envgen.mapf.compiled import compiled
from envgen.mapf.solver.bitboard import NONE, holds, lowest, neighbours, word_pair
from envgen.mapf.solver.depth_first import joint, last_step, options
from envgen.mapf.solver.diagrams import (
    ANY_WAITS,
    ENTRIES,
    FEWEST_SLOTS,
    FOUND,
    GIVEN_UP,
    HORIZON,
    NODE_LIMIT,
    NODES,
    NOT_FOUND,
    QUICK,
    SLOTS,
    SWEEPS,
    allowed_cost,
    pair_index,
    prioritised,
)


@compiled
def _hashed(key):
    return np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40))


@compiled
def _more_slots(space, begin, end):
    """A larger hash table for the layer at hand."""
    space.counters[SLOTS] *= 8
    space.counters[SWEEPS] += 1
    mask = space.counters[SLOTS] - 1
    for entry in range(begin, end):
        slot = _hashed(space.layer_keys[entry]) & mask
        while space.slot_stamps[slot] == space.counters[SWEEPS]:
            slot = (slot + 1) & mask
        space.slot_stamps[slot] = space.counters[SWEEPS]
        space.slots[slot] = entry


@compiled
def _enter(space, size, key, low, high):
    """Add cells of the last member to the entry of `key` in the layer that ends at `size`.

    Returns where it ends after that.
    """
    mask = space.counters[SLOTS] - 1
    slot = _hashed(key) & mask
    while space.slot_stamps[slot] == space.counters[SWEEPS]:
        entry = np.int64(space.slots[slot])
        if space.layer_keys[entry] == key:
            space.layer_cells[entry, 0] |= low
            space.layer_cells[entry, 1] |= high
            return size
        slot = (slot + 1) & mask
    space.slot_stamps[slot] = space.counters[SWEEPS]
    space.slots[slot] = size
    space.layer_keys[size] = key
    space.layer_cells[size, 0] = low
    space.layer_cells[size, 1] = high
    return size + 1


@compiled
def _read_entry(space, entry, others):
    """Put an entry's positions into row 0 of `position`; its waits so far."""
    used = space.layer_keys[entry] & 127
    key = space.layer_keys[entry] >> 7
    for rank in range(others - 1, -1, -1):
        space.position[0, rank] = key & 127
        key >>= 7
    return used


@compiled
def _follow(space, count, low, high, moves, stays, stride, free_low, free_high, strict):
    """Where the last member may be at step `used[0]`, coming from the given cells.

    The others move as `position` says.
    """
    agent = space.members[count - 1]
    step = space.used[0]
    near_low, near_high = low, high
    if step <= allowed_cost(space, agent):
        if moves:
            near_low, near_high = neighbours(low, high, stride, free_low, free_high)
        if moves and stays:
            near_low |= low
            near_high |= high
        mdd = space.mdds[agent, 2 * space.excess[agent] + strict]
        near_low &= mdd[step, 0]
        near_high &= mdd[step, 1]
    for rank in range(count - 1):
        other = space.members[rank]
        before, after = space.position[0, rank], space.position[1, rank]
        pair = pair_index(other, agent)
        if space.meets[pair] and step <= max(allowed_cost(space, agent), allowed_cost(space, other)):
            near_low &= space.tables[pair, step, after, 0]
            near_high &= space.tables[pair, step, after, 1]
        if moves and before != after and holds(near_low, near_high, before) and holds(low, high, after):
            bit_low, bit_high = word_pair(before)
            gone_low, gone_high = word_pair(after)
            from_low, from_high = neighbours(bit_low, bit_high, stride, free_low, free_high)
            if ((from_low & low & ~gone_low) | (from_high & high & ~gone_high)) == NONE:
                near_low &= ~bit_low
                near_high &= ~bit_high
    return near_low, near_high


@compiled
def _enter_next(space, size, count, used, low, high, waits, strict, stride, free_low, free_high):
    """Enter what follows an entry of `used` waits when the others move as `position` says.

    The last member comes from the given cells. Returns where the layer ends after that.
    """
    step, others = space.used[0], count - 1
    key, spent = 0, used
    for rank in range(others):
        key = key << 7 | space.position[1, rank]
        stayed = space.position[1, rank] == space.position[0, rank]
        stayed = stayed and step <= allowed_cost(space, space.members[rank])
        spent += stayed and waits != ANY_WAITS
    counted = waits != ANY_WAITS and step <= allowed_cost(space, space.members[others])
    for staying in range(2 if counted else 1):
        if spent + staying > waits:
            break
        moves, stays = staying == 0, staying == 1 or not (strict or counted)
        near_low, near_high = _follow(
            space, count, low, high, moves, stays, stride, free_low, free_high, strict
        )
        if (near_low | near_high) != NONE:
            size = _enter(space, size, key << 7 | (spent + staying), near_low, near_high)
    return size


@compiled
def _sweep(space, count, waits, strict, stride, free_low, free_high):
    """Whether the members can finish with at most `waits` waits.

    All joint positions step by step, the last member as a set of cells. Slower than `joint` where there is a
    plan, many times faster where there is none. GIVEN_UP if there are too many.
    """
    last, others = last_step(space, count), count - 1
    space.counters[SLOTS] = FEWEST_SLOTS
    space.counters[SWEEPS] += 1
    key = 0
    for rank in range(others):
        key = key << 7 | space.starts[space.members[rank]]
    low, high = word_pair(space.starts[space.members[others]])
    space.layer_begin[0] = 0
    size = _enter(space, 0, key << 7, low, high)
    space.layer_begin[1] = size
    for step in range(1, last + 1):
        space.used[0] = step
        space.counters[SWEEPS] += 1
        for entry in range(space.layer_begin[step - 1], space.layer_begin[step]):
            used = _read_entry(space, entry, others)
            low, high = space.layer_cells[entry, 0], space.layer_cells[entry, 1]
            space.counters[NODES] += 1
            rank = 0
            options(space, 0, 1, step, strict, stride, free_low, free_high)
            while rank >= 0:
                todo_low, todo_high = space.choices[1, rank, 0], space.choices[1, rank, 1]
                if (todo_low | todo_high) == NONE:
                    rank -= 1
                    continue
                cell = lowest(todo_low, todo_high)
                bit_low, bit_high = word_pair(cell)
                space.choices[1, rank, 0] = todo_low & ~bit_low
                space.choices[1, rank, 1] = todo_high & ~bit_high
                space.position[1, rank] = cell
                if rank < others - 1:
                    rank += 1
                    options(space, rank, 1, step, strict, stride, free_low, free_high)
                    continue
                size = _enter_next(
                    space, size, count, used, low, high, waits, strict, stride, free_low, free_high
                )
                if size + 2 > ENTRIES:
                    return GIVEN_UP
                if 2 * (size - space.layer_begin[step]) >= space.counters[SLOTS]:
                    _more_slots(space, space.layer_begin[step], size)
        if space.counters[NODES] > space.counters[NODE_LIMIT]:
            return GIVEN_UP
        if size == space.layer_begin[step]:
            return NOT_FOUND
        space.layer_begin[step + 1] = size
    return FOUND


@compiled
def _walk_back(space, count, waits, stride):
    """Fill `paths` with a plan of the members, read backwards from the layers of the sweep that found one."""
    last, others = last_step(space, count), count - 1
    for rank in range(count):
        for step in range(space.counters[HORIZON] + 1):
            space.paths[space.members[rank], step] = space.goals[space.members[rank]]
    spent = space.layer_keys[space.layer_begin[last]] & 127
    for step in range(last, 0, -1):
        found = False
        for entry in range(space.layer_begin[step - 1], space.layer_begin[step]):
            used = _read_entry(space, entry, others)
            low, high = space.layer_cells[entry, 0], space.layer_cells[entry, 1]
            while (low | high) != NONE and not found:
                cell = lowest(low, high)
                bit_low, bit_high = word_pair(cell)
                low &= ~bit_low
                high &= ~bit_high
                space.position[0, others] = cell
                stays = _stays(space, count, step, stride)
                found = stays >= 0 and (waits == ANY_WAITS or used + stays == spent)
            if found:
                spent = used
                break
        for rank in range(count):
            space.paths[space.members[rank], step - 1] = space.position[0, rank]


@compiled
def _stays(space, count, step, stride):
    """Waits if the members go from row 0 of `position` to where `paths` has them at `step`.

    -1 if they cannot.
    """
    waits = 0
    for rank in range(count):
        agent = space.members[rank]
        before, after = space.position[0, rank], space.paths[agent, step]
        away = abs(before - after)
        if not (away == 0 or away == 1 or away == np.int64(stride)):
            return -1
        if step <= allowed_cost(space, agent):
            waits += away == 0
        elif away != 0:
            return -1
        for earlier in range(rank):
            if space.position[0, earlier] == after and space.paths[space.members[earlier], step] == before:
                return -1
    return waits


@compiled
def plan_members(space, count, waits, strict, stride, free_low, free_high):
    """Whether the members have a joint plan with at most `waits` waits; fills `paths`."""
    result = joint(space, count, waits, 4 * QUICK, strict, stride, free_low, free_high)
    if result == GIVEN_UP:
        result = _sweep(space, count, waits, strict, stride, free_low, free_high)
        if result == FOUND:
            _walk_back(space, count, waits, stride)
    return result


@compiled
def members_can_finish(space, count, strict, stride, free_low, free_high):
    """Whether the members can finish.

    One after another, by a short depth-first search, and by a sweep where those leave it open.
    """
    for order in range(3):
        if prioritised(space, count, order, strict, stride, free_low, free_high):
            return FOUND
    verdict = joint(space, count, ANY_WAITS, QUICK, strict, stride, free_low, free_high)
    if verdict == GIVEN_UP:
        verdict = _sweep(space, count, ANY_WAITS, strict, stride, free_low, free_high)
    return verdict
