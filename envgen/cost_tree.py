"""Increasing-cost-tree search (Sharon et al. 2013) on bitboards, compiled.

Each agent is allowed a cost: its distance plus an excess. The multi-value decision diagram (MDD) of that cost holds,
per step, the cells on some path that is at its goal from that cost on. Vectors of excesses are tried in the order of
their sum, so the first one whose MDDs hold a conflict-free joint plan is optimal in the sum of costs. A vector is
settled by prioritised planning inside the MDDs where that succeeds (a plan found is a proof), by tables of what every
two agents can still finish, and where those leave it open by a short depth-first search of their product, then by a
sweep over all its positions step by step.
"""

import numpy as np

from envgen.bitboard import CELLS, NONE, holds, lowest, neighbours, ones, word_pair
from envgen.compiled import compiled

AGENTS = 5
PAIRS = 10
LONGEST = 256
"""Steps that an MDD may have."""
LEVELS = 128
"""Excesses of one agent that are tried: 0 to LEVELS - 1."""
ANY_WAITS = 1 << 20
QUICK = 50
"""Joint moves of the depth-first search that goes before a sweep."""
VISITED = 1 << 15
ENTRIES = 1 << 21
"""Joint positions of all steps that a sweep may hold."""
FEWEST_SLOTS, MOST_SLOTS = 1 << 12, 1 << 22
"""Size of the hash table of one step of a sweep, a power of two: small at first, to stay in the processor's caches."""
DECIDED = 4096
"""Verdicts on sets of agents that are remembered for a board."""

FOUND, NOT_FOUND, GIVEN_UP, OPEN = 1, 0, -1, -4

STAMP, GENERATION, NODES, NODE_LIMIT, HORIZON, BEST_HORIZON, SETS, SWEEPS, SLOTS = range(9)


_INTEGERS, _WORDS = np.int64, np.uint64
TREE_SPACE = np.dtype(
    [
        ("counters", _INTEGERS, (9,)),
        ("starts", _INTEGERS, (AGENTS,)),
        ("goals", _INTEGERS, (AGENTS,)),
        ("distance", _INTEGERS, (AGENTS,)),
        # [agent, steps, 2]: cells from which the goal is that many moves away or fewer
        ("reach", _WORDS, (AGENTS, LONGEST, 2)),
        ("radius", _INTEGERS, (AGENTS,)),
        # [agent, 2 * excess + (1 if waiting is forbidden), step, 2]
        ("mdds", _WORDS, (AGENTS, 2 * LEVELS, LONGEST, 2)),
        ("mdd_stamps", _INTEGERS, (AGENTS, 2 * LEVELS)),
        ("excess", _INTEGERS, (AGENTS,)),
        ("left", _INTEGERS, (AGENTS,)),
        ("front", _WORDS, (LONGEST, 2)),
        # [agent, step]: bit indices, padded with the goal up to the horizon
        ("paths", _INTEGERS, (AGENTS, LONGEST)),
        # [pair, excess of the first]: stamp and 255 less the least excess of the second with which both can finish
        ("enough", _INTEGERS, (PAIRS, LEVELS)),
        # [pair, excess of the first]: stamp and the largest excess of the second with which they cannot
        ("short", _INTEGERS, (PAIRS, LEVELS)),
        ("strict_verdicts", _INTEGERS, (PAIRS, LEVELS, LEVELS)),
        # [pair]: whether the MDDs of the vector at hand meet
        ("meets", _INTEGERS, (PAIRS,)),
        # [entry, 3 + agent]: mask, whether waiting is forbidden, verdict and excesses of sets of three agents and more
        ("decided", _INTEGERS, (DECIDED, 3 + AGENTS)),
        ("table_keys", _INTEGERS, (PAIRS,)),
        # [pair, step, cell of the first agent, 2]: cells of the second agent from which both can still finish; one to spare
        ("tables", _WORDS, (PAIRS + 1, LONGEST, CELLS, 2)),
        # [step & 1, cell, 2]: cells from which the other agent can step into the table's set
        ("spread", _WORDS, (2, CELLS, 2)),
        ("members", _INTEGERS, (AGENTS,)),
        # [rank]: who is planned after whom
        ("queue", _INTEGERS, (AGENTS,)),
        ("group", _INTEGERS, (AGENTS,)),
        ("used", _INTEGERS, (LONGEST,)),
        ("position", _INTEGERS, (LONGEST, AGENTS)),
        ("choices", _WORDS, (LONGEST, AGENTS, 2)),
        ("visited", _WORDS, (VISITED,)),
        # [agent, step]: the plan with the fewest waits so far
        ("best", _INTEGERS, (AGENTS, LONGEST)),
        # [step]: first entry of each step of a sweep
        ("layer_begin", _INTEGERS, (LONGEST + 1,)),
        # [entry]: positions of all members but the last
        ("layer_keys", _INTEGERS, (ENTRIES,)),
        # [entry, 2]: where the last member may then be
        ("layer_cells", _WORDS, (ENTRIES, 2)),
        ("slots", np.int32, (MOST_SLOTS,)),
        ("slot_stamps", _INTEGERS, (MOST_SLOTS,)),
    ]
)
"""Working memory, used again for every board; entries of earlier boards are told by their stamp.

One record, so that a call passes one pointer and the compiler knows every shape. Words are uint64, the last axis holds
the two words of a bitboard.
"""


def tree_space() -> np.void:
    """Fresh working memory: 15 MB, and up to 150 MB where a sweep needs them."""
    return np.zeros(1, dtype=TREE_SPACE)[0]


@compiled
def pair_index(i, j):
    """Index of the pair i < j."""
    return j * (j - 1) // 2 + i


@compiled
def measure(space, agent, stride, free_low, free_high):
    """Breadth-first layers from the goal to the start; the distance, or -1 if the goal cannot be reached."""
    reach = space.reach[agent]
    start = space.starts[agent]
    low, high = word_pair(space.goals[agent])
    reach[0, 0] = low
    reach[0, 1] = high
    steps = 0
    while not holds(low, high, start):
        near_low, near_high = neighbours(low, high, stride, free_low, free_high)
        near_low |= low
        near_high |= high
        if near_low == low and near_high == high:
            return -1
        low, high = near_low, near_high
        steps += 1
        reach[steps, 0] = low
        reach[steps, 1] = high
    space.distance[agent] = steps
    space.radius[agent] = steps
    return steps


@compiled
def widen(space, agent, steps, stride, free_low, free_high):
    """Extend the layers of `measure` to `steps` moves from the goal."""
    reach = space.reach[agent]
    known = space.radius[agent]
    while known < steps:
        low, high = reach[known, 0], reach[known, 1]
        near_low, near_high = neighbours(low, high, stride, free_low, free_high)
        known += 1
        reach[known, 0] = low | near_low
        reach[known, 1] = high | near_high
    space.radius[agent] = known


@compiled
def build_mdd(space, agent, excess, strict, stride, free_low, free_high):
    """The MDD of a cost; False if it is empty. With `strict`, waiting before the last arrival is forbidden."""
    level = 2 * excess + strict
    if space.mdd_stamps[agent, level] != space.counters[STAMP]:
        space.mdd_stamps[agent, level] = space.counters[STAMP]
        mdd = space.mdds[agent, level]
        cost = space.distance[agent] + excess
        widen(space, agent, cost, stride, free_low, free_high)
        reach = space.reach[agent]
        low, high = word_pair(space.starts[agent])
        mdd[0, 0] = low
        mdd[0, 1] = high
        for step in range(1, cost + 1):
            near_low, near_high = neighbours(low, high, stride, free_low, free_high)
            if not strict:
                near_low |= low
                near_high |= high
            low = near_low & reach[cost - step, 0]
            high = near_high & reach[cost - step, 1]
            mdd[step, 0] = low
            mdd[step, 1] = high
    cost = space.distance[agent] + excess
    return (space.mdds[agent, level, cost, 0] | space.mdds[agent, level, cost, 1]) != NONE


@compiled
def _cost(space, agent):
    return space.distance[agent] + space.excess[agent]


@compiled
def _ordered(order, rank, agents):
    if order == 0:
        return rank
    if order == 1:
        return agents - 1 - rank
    return (rank + 1) % agents


@compiled
def _enlist(space, agents):
    """Make all agents the members, and the horizon the last of their arrivals."""
    horizon = 0
    for agent in range(agents):
        space.members[agent] = agent
        horizon = max(horizon, _cost(space, agent))
    space.counters[HORIZON] = horizon


@compiled
def prioritised(space, count, order, strict, stride, free_low, free_high):
    """Plan the members one after another inside their MDDs; True with `paths` filled is a proof, False is none."""
    horizon, paths, queue = space.counters[HORIZON], space.paths, space.queue
    for rank in range(count):
        queue[rank] = space.members[_ordered(order, rank, count)]
    for rank in range(count):
        agent = queue[rank]
        cost = _cost(space, agent)
        mdd = space.mdds[agent, 2 * space.excess[agent] + strict]
        front = space.front[:] if rank else mdd  # nothing is in the way of the first
        low, high = mdd[0, 0], mdd[0, 1]
        front[0, 0] = low
        front[0, 1] = high
        for step in range(1, cost + 1 if rank else 1):
            near_low, near_high = neighbours(low, high, stride, free_low, free_high)
            if not strict:
                near_low |= low
                near_high |= high
            near_low &= mdd[step, 0]
            near_high &= mdd[step, 1]
            for earlier in range(rank):
                other = queue[earlier]
                after, before = paths[other, step], paths[other, step - 1]
                bit_low, bit_high = word_pair(after)
                near_low &= ~bit_low
                near_high &= ~bit_high
                if after != before and holds(near_low, near_high, before) and holds(low, high, after):
                    there_low, there_high = word_pair(before)
                    from_low, from_high = neighbours(there_low, there_high, stride, free_low, free_high)
                    if (from_low & low & ~bit_low) == NONE and (from_high & high & ~bit_high) == NONE:
                        near_low &= ~there_low
                        near_high &= ~there_high
            low, high = near_low, near_high
            if (low | high) == NONE:
                return False
            front[step, 0] = low
            front[step, 1] = high
        goal = space.goals[agent]
        for step in range(cost + 1, horizon + 1):
            for earlier in range(rank):
                if paths[queue[earlier], step] == goal:
                    return False
        cell = goal
        paths[agent, cost] = goal
        for step in range(cost, 0, -1):
            bit_low, bit_high = word_pair(cell)
            from_low, from_high = neighbours(bit_low, bit_high, stride, free_low, free_high)
            from_low &= front[step - 1, 0]
            from_high &= front[step - 1, 1]
            for earlier in range(rank):
                other = queue[earlier]
                if paths[other, step - 1] == cell:
                    gone_low, gone_high = word_pair(paths[other, step])
                    from_low &= ~gone_low
                    from_high &= ~gone_high
            if (from_low | from_high) != NONE:
                cell = lowest(from_low, from_high)
            paths[agent, step - 1] = cell
        for step in range(cost + 1, horizon + 1):
            paths[agent, step] = goal
    return True


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
def _last_meeting(space, i, j, strict):
    """The last step at which the MDDs of two agents meet; 0 if they never do."""
    first, second = space.mdds[i, 2 * space.excess[i] + strict], space.mdds[j, 2 * space.excess[j] + strict]
    first_cost, second_cost = _cost(space, i), _cost(space, j)
    step = max(first_cost, second_cost)
    while step > 0 and not _meet_at(first, first_cost, second, second_cost, step):
        step -= 1
    return step


@compiled
def _fill_table(space, pair, listed, other, steps, strict, stride, free_low, free_high):
    """Backwards from the last of `steps` (first, last meeting, last), agent `listed` cell by cell, `other` as a set; False if nothing is left at a step."""
    first_step, last_meeting, last_step = steps
    table, spread = space.tables[pair], space.spread
    listed_mdd, listed_cost = space.mdds[listed, 2 * space.excess[listed] + strict], _cost(space, listed)
    other_mdd, other_cost = space.mdds[other, 2 * space.excess[other] + strict], _cost(space, other)
    for step in range(last_step, first_step - 1, -1):
        here, there = min(step, listed_cost), min(step + 1, listed_cost)
        todo_low, todo_high = listed_mdd[here, 0], listed_mdd[here, 1]
        mine_low, mine_high = other_mdd[min(step, other_cost), 0], other_mdd[min(step, other_cost), 1]
        alive = False
        while (todo_low | todo_high) != NONE:
            cell = lowest(todo_low, todo_high)
            cell_low, cell_high = word_pair(cell)
            todo_low &= ~cell_low
            todo_high &= ~cell_high
            partners_low, partners_high = mine_low & ~cell_low, mine_high & ~cell_high
            if step < last_meeting:
                next_low, next_high = cell_low, cell_high
                if step < listed_cost:
                    next_low, next_high = neighbours(cell_low, cell_high, stride, free_low, free_high)
                    if not strict:
                        next_low |= cell_low
                        next_high |= cell_high
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
            if (partners_low | partners_high) != NONE:
                alive = True
            if step <= last_meeting:
                near_low, near_high = partners_low, partners_high
                if step <= other_cost:
                    near_low, near_high = neighbours(partners_low, partners_high, stride, free_low, free_high)
                    if not strict:
                        near_low |= partners_low
                        near_high |= partners_high
                spread[step & 1, cell, 0] = near_low
                spread[step & 1, cell, 1] = near_high
        if not alive:
            return False
    return True


@compiled
def _possible(space, i, j, strict, stride, free_low, free_high):
    """Whether agents i < j can both finish within their excesses, taken alone.

    More excess never hurts, so what is known of one pair of excesses decides others; with `strict` only itself.
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
    """Whether two agents can finish: only the steps from their first meeting to their last matter, and either may be the one that is listed."""
    last = _last_meeting(space, i, j, strict)
    if last == 0:
        return True
    first, second = space.mdds[i, 2 * space.excess[i] + strict], space.mdds[j, 2 * space.excess[j] + strict]
    first_cost, second_cost = _cost(space, i), _cost(space, j)
    step = 1
    while not _meet_at(first, first_cost, second, second_cost, step):
        step += 1
    wider = 0
    for at in range(step, last + 1):
        wider += ones(first[min(at, first_cost), 0], first[min(at, first_cost), 1])
        wider -= ones(second[min(at, second_cost), 0], second[min(at, second_cost), 1])
    listed, other = (j, i) if wider > 0 else (i, j)
    space.counters[NODES] += 10
    return _fill_table(space, PAIRS, listed, other, (step - 1, last, last), strict, stride, free_low, free_high)


@compiled
def _ready_table(space, i, j, last_meeting, strict, stride, free_low, free_high):
    """Fill the table of a pair that can finish within its excesses, if it holds others."""
    pair = pair_index(i, j)
    key = ((space.counters[STAMP] * 2 + strict) * LEVELS + space.excess[i]) * LEVELS + space.excess[j]
    if space.table_keys[pair] != key:
        space.table_keys[pair] = key
        steps = 0, last_meeting, max(_cost(space, i), _cost(space, j))
        _fill_table(space, pair, i, j, steps, strict, stride, free_low, free_high)


@compiled
def _options(space, rank, row, step, strict, stride, free_low, free_high):
    """Cells that member `rank` may enter at `step`, given the members before it; their positions are in `row` and the one before."""
    agent = space.members[rank]
    before = space.position[row - 1, rank]
    cost = _cost(space, agent)
    low, high = word_pair(before)
    if step <= cost:
        near_low, near_high = neighbours(low, high, stride, free_low, free_high)
        if not strict:
            near_low |= low
            near_high |= high
        mdd = space.mdds[agent, 2 * space.excess[agent] + strict]
        low = near_low & mdd[step, 0]
        high = near_high & mdd[step, 1]
    for earlier in range(rank):
        other = space.members[earlier]
        target = space.position[row, earlier]
        pair = pair_index(other, agent)
        if space.meets[pair] and step <= max(cost, _cost(space, other)):
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
def joint(space, count, waits, nodes, strict, stride, free_low, free_high):
    """Depth-first search for a joint plan of the members inside their MDDs with at most `waits` waits; fills `paths`.

    GIVEN_UP after `nodes` joint moves, or at the node limit of the board.
    """
    last = 0
    for rank in range(count):
        space.position[0, rank] = space.starts[space.members[rank]]
        last = max(last, _cost(space, space.members[rank]))
    space.counters[GENERATION] += 1
    if space.counters[GENERATION] == 1 << 14:
        space.visited[:] = NONE
        space.counters[GENERATION] = 1
    space.used[0] = 0
    if last == 0:
        step = 0
    else:
        step, rank = 1, 0
        _options(space, 0, 1, 1, strict, stride, free_low, free_high)
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
                _options(space, rank, step, step, strict, stride, free_low, free_high)
                continue
            space.counters[NODES] += 1
            nodes -= 1
            if nodes < 0 or space.counters[NODES] > space.counters[NODE_LIMIT]:
                return GIVEN_UP
            used = space.used[step - 1]
            if waits != ANY_WAITS:
                for member in range(count):
                    if space.position[step, member] == space.position[step - 1, member] and step <= _cost(space, space.members[member]):
                        used += 1
                if used > waits:
                    continue
            space.used[step] = used
            if step == last:
                break
            if _seen(space, count, step):
                continue
            step += 1
            rank = 0
            _options(space, 0, step, step, strict, stride, free_low, free_high)
    for rank in range(count):
        agent = space.members[rank]
        for at in range(space.counters[HORIZON] + 1):
            space.paths[agent, at] = space.position[min(at, step), rank]
    return FOUND


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
    """Add cells of the last member to the entry of `key` in the layer that ends at `size`; where it ends after that."""
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
def _follow(space, count, low, high, moves, stays, stride, free_low, free_high, strict):
    """Where the last member may be at step `used[0]`, coming from the given cells while the others move as `position` says."""
    agent = space.members[count - 1]
    step = space.used[0]
    near_low, near_high = low, high
    if step <= _cost(space, agent):
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
        if space.meets[pair] and step <= max(_cost(space, agent), _cost(space, other)):
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
def _sweep(space, count, waits, strict, stride, free_low, free_high):
    """Whether the members can finish with at most `waits` waits: all joint positions step by step, the last member as a set of cells.

    Slower than `joint` where there is a plan, many times faster where there is none. GIVEN_UP if there are too many.
    """
    last = 0
    for rank in range(count):
        last = max(last, _cost(space, space.members[rank]))
    others = count - 1
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
            used = space.layer_keys[entry] & 127
            key = space.layer_keys[entry] >> 7
            for rank in range(others - 1, -1, -1):
                space.position[0, rank] = key & 127
                key >>= 7
            low, high = space.layer_cells[entry, 0], space.layer_cells[entry, 1]
            space.counters[NODES] += 1
            rank = 0
            _options(space, 0, 1, step, strict, stride, free_low, free_high)
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
                    _options(space, rank, 1, step, strict, stride, free_low, free_high)
                    continue
                key, spent = 0, used
                for other in range(others):
                    key = key << 7 | space.position[1, other]
                    stayed = space.position[1, other] == space.position[0, other] and step <= _cost(space, space.members[other])
                    spent += stayed and waits != ANY_WAITS
                counted = waits != ANY_WAITS and step <= _cost(space, space.members[others])
                for staying in range(2 if counted else 1):
                    if spent + staying > waits:
                        break
                    moves, stays = staying == 0, staying == 1 or not (strict or counted)
                    near_low, near_high = _follow(space, count, low, high, moves, stays, stride, free_low, free_high, strict)
                    if (near_low | near_high) != NONE:
                        size = _enter(space, size, key << 7 | (spent + staying), near_low, near_high)
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
    """Fill `paths` with a plan of the members, read backwards out of the layers of the sweep that has just found one."""
    last = 0
    for rank in range(count):
        last = max(last, _cost(space, space.members[rank]))
        for step in range(space.counters[HORIZON] + 1):
            space.paths[space.members[rank], step] = space.goals[space.members[rank]]
    others = count - 1
    spent = space.layer_keys[space.layer_begin[last]] & 127
    for step in range(last, 0, -1):
        found = False
        for entry in range(space.layer_begin[step - 1], space.layer_begin[step]):
            used = space.layer_keys[entry] & 127
            key = space.layer_keys[entry] >> 7
            for rank in range(others - 1, -1, -1):
                space.position[0, rank] = key & 127
                key >>= 7
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
    """Waits if the members go from row 0 of `position` to where `paths` has them at `step`; -1 if they cannot."""
    waits = 0
    for rank in range(count):
        agent = space.members[rank]
        before, after = space.position[0, rank], space.paths[agent, step]
        away = abs(before - after)
        if not (away == 0 or away == 1 or away == np.int64(stride)):
            return -1
        if step <= _cost(space, agent):
            waits += away == 0
        elif away != 0:
            return -1
        for earlier in range(rank):
            if space.position[0, earlier] == after and space.paths[space.members[earlier], step] == before:
                return -1
    return waits


@compiled
def _can_finish(space, count, strict, stride, free_low, free_high):
    """Whether the members can finish: one after another, by a short depth-first search, and by a sweep where those leave it open."""
    for order in range(3):
        if prioritised(space, count, order, strict, stride, free_low, free_high):
            return FOUND
    verdict = joint(space, count, ANY_WAITS, QUICK, strict, stride, free_low, free_high)
    if verdict == GIVEN_UP:
        verdict = _sweep(space, count, ANY_WAITS, strict, stride, free_low, free_high)
    return verdict


@compiled
def _known(space, mask, strict):
    """What earlier vectors say of the agents in `mask`: FOUND or NOT_FOUND, else GIVEN_UP."""
    for entry in range(space.counters[SETS]):
        row = space.decided[entry]
        if row[0] != mask or row[1] != strict:
            continue
        fits = True
        for agent in range(AGENTS):
            differs = (mask >> agent) & 1 and row[3 + agent] != space.excess[agent]
            if differs and (strict or (row[3 + agent] > space.excess[agent]) == (row[2] == FOUND)):
                fits = False
                break
        if fits:
            return row[2]
    return GIVEN_UP


@compiled
def _ruled_out(space, agent, strict):
    """Whether a set of three agents or more, up to and with `agent`, is known not to finish within its excesses."""
    for entry in range(space.counters[SETS]):
        row = space.decided[entry]
        if row[2] != NOT_FOUND or row[1] != strict or row[0] >> agent != 1:
            continue
        fits = True
        for other in range(agent + 1):
            if (row[0] >> other) & 1 and (space.excess[other] > row[3 + other] or (strict and space.excess[other] < row[3 + other])):
                fits = False
                break
        if fits:
            return True
    return False


@compiled
def _sets_finish(space, agents, strict, stride, free_low, free_high):
    """Check all sets of three and four agents that get in each other's way; verdicts are kept for later vectors."""
    for size in range(3, agents):
        for mask in range(1 << agents):
            members = 0
            for agent in range(agents):
                members += (mask >> agent) & 1
            if members != size:
                continue
            count, joined = 0, True
            for agent in range(agents):
                if (mask >> agent) & 1:
                    space.members[count] = agent
                    count += 1
            for rank in range(count):
                agent, friends = space.members[rank], 0
                for other in range(count):
                    peer = space.members[other]
                    friends += peer != agent and space.meets[pair_index(min(agent, peer), max(agent, peer))]
                joined = joined and friends > 0
            if not joined:
                continue
            verdict = _known(space, mask, strict)
            if verdict == GIVEN_UP:
                verdict = _can_finish(space, count, strict, stride, free_low, free_high)
                if verdict == GIVEN_UP:
                    return GIVEN_UP
                if space.counters[SETS] < DECIDED:
                    row = space.decided[space.counters[SETS]]
                    row[0], row[1], row[2] = mask, strict, verdict
                    for agent in range(agents):
                        row[3 + agent] = space.excess[agent]
                    space.counters[SETS] += 1
            if verdict == NOT_FOUND:
                return NOT_FOUND
    return FOUND


@compiled
def _form_groups(space, agents, strict, stride, free_low, free_high):
    """Agents whose MDDs meet, directly or through others, get the same group number and their tables; the size of the largest group."""
    for agent in range(agents):
        space.group[agent] = agent
    for j in range(1, agents):
        for i in range(j):
            last_meeting = _last_meeting(space, i, j, strict)
            space.meets[pair_index(i, j)] = last_meeting > 0
            if last_meeting == 0:
                continue
            _ready_table(space, i, j, last_meeting, strict, stride, free_low, free_high)
            if space.group[i] != space.group[j]:
                old, new = space.group[j], space.group[i]
                for agent in range(agents):
                    if space.group[agent] == old:
                        space.group[agent] = new
    largest = 0
    for agent in range(agents):
        size = 0
        for other in range(agents):
            size += space.group[other] == agent
        largest = max(largest, size)
    return largest


@compiled
def _gather(space, agents, group):
    count = 0
    for agent in range(agents):
        if space.group[agent] == group:
            space.members[count] = agent
            count += 1
    return count


@compiled
def _waits(space, agents):
    """Waits before the last arrivals of the plan in `paths`."""
    total = 0
    for agent in range(agents):
        path = space.paths[agent]
        arrival = space.counters[HORIZON]
        while arrival > 0 and path[arrival - 1] == path[arrival]:
            arrival -= 1
        for step in range(arrival):
            total += path[step] == path[step + 1]
    return total


@compiled
def _plan_group(space, count, waits, strict, stride, free_low, free_high):
    """Whether the members have a joint plan with at most `waits` waits; fills `paths`."""
    result = joint(space, count, waits, 4 * QUICK, strict, stride, free_low, free_high)
    if result == GIVEN_UP:
        result = _sweep(space, count, waits, strict, stride, free_low, free_high)
        if result == FOUND:
            _walk_back(space, count, waits, stride)
    return result


@compiled
def _settle(space, agents, waits, strict, stride, free_low, free_high):
    """Decide whether the vector in `excess`, every pair of which can finish, holds a plan with at most `waits` waits; FOUND with `paths` filled.

    That less than `waits` by two or more are too few must be known.
    """
    spare = waits
    for agent in range(agents):
        spare -= space.excess[agent] & 1
    if spare < 0:
        return NOT_FOUND
    _enlist(space, agents)
    for order in range(min(agents, 3)):
        if prioritised(space, agents, order, strict, stride, free_low, free_high) and (waits == ANY_WAITS or _waits(space, agents) <= waits):
            return FOUND
    if _form_groups(space, agents, strict, stride, free_low, free_high) > 2:
        result = _sets_finish(space, agents, strict, stride, free_low, free_high)
        if result != FOUND:
            return result
    for group in range(agents):
        count, least = _gather(space, agents, group), 0
        if count == 0:
            continue
        for rank in range(count):
            least += space.excess[space.members[rank]] & 1
        spent = waits if count == agents or waits == ANY_WAITS else least
        result = _plan_group(space, count, spent, strict, stride, free_low, free_high)
        while result == NOT_FOUND and spent + 2 - least <= spare:
            spent += 2
            result = _plan_group(space, count, spent, strict, stride, free_low, free_high)
        if result != FOUND:
            return result
        spare -= spent - least
    return FOUND


@compiled
def keep(space, agents):
    """Remember the plan in `paths`."""
    space.counters[BEST_HORIZON] = space.counters[HORIZON]
    for agent in range(agents):
        for step in range(space.counters[HORIZON] + 1):
            space.best[agent, step] = space.paths[agent, step]


@compiled
def search(space, agents, total, waits, strict, stride, free_low, free_high):
    """Try every vector of excesses that sums to `total`: FOUND with `paths` filled at the first that holds a plan with at most `waits` waits.

    Otherwise NOT_FOUND, or GIVEN_UP at the node limit.
    """
    grain = 2 if strict else 1
    excess, left = space.excess, space.left
    excess[0] = -grain
    left[0] = total
    agent = 0
    while agent >= 0:
        if agent == agents - 1:
            excess[agent] = left[agent] if excess[agent] < 0 else LEVELS
        else:
            excess[agent] += grain
        if excess[agent] > left[agent] or excess[agent] >= LEVELS:
            agent -= 1
            continue
        if not build_mdd(space, agent, excess[agent], strict, stride, free_low, free_high):
            continue
        possible = True
        for other in range(agent):
            if not _possible(space, other, agent, strict, stride, free_low, free_high):
                possible = False
                break
        if not possible or _ruled_out(space, agent, strict):
            continue
        if agent < agents - 1:
            left[agent + 1] = left[agent] - excess[agent]
            agent += 1
            excess[agent] = -grain
        else:
            result = _settle(space, agents, waits, strict, stride, free_low, free_high)
            if result != NOT_FOUND:
                return result
    return NOT_FOUND


@compiled
def begin(space, agents, stride, free_low, free_high):
    """Measure the board in `starts` and `goals` and try the shortest paths.

    FOUND with a plan of excess 0 in `best`, NOT_FOUND if some goal cannot be reached, GIVEN_UP if a path is too long
    for this search, else OPEN.
    """
    space.counters[STAMP] += 1
    space.counters[NODES] = 0
    space.counters[SETS] = 0
    long = False
    for agent in range(agents):
        distance = measure(space, agent, stride, free_low, free_high)
        if distance < 0:
            return NOT_FOUND
        long = long or distance + LEVELS >= LONGEST
    if long:
        return GIVEN_UP
    for agent in range(agents):
        space.excess[agent] = 0
        build_mdd(space, agent, 0, 0, stride, free_low, free_high)
    _enlist(space, agents)
    for order in range(min(agents, 3)):
        if prioritised(space, agents, order, 0, stride, free_low, free_high):
            keep(space, agents)
            return FOUND
    return OPEN


@compiled
def deepen(space, agents, least, most, stride, free_low, free_high):
    """Search the excesses `least` to `most`: (FOUND + excess, fewest waits) with the plan in `best`, (OPEN, 0) if there is none, or (GIVEN_UP, 0)."""
    # One call of `search`, since every further one is compiled again.
    excess, waits, allowed = least, 0, ANY_WAITS
    while excess <= most:
        result = search(space, agents, excess, allowed, 1 if allowed == 0 else 0, stride, free_low, free_high)
        if result == GIVEN_UP:
            return GIVEN_UP, 0
        if result == FOUND:
            keep(space, agents)
            waits = _waits(space, agents)
            if allowed != ANY_WAITS:
                break
            allowed = excess & 1
        elif allowed == ANY_WAITS:
            excess += 1
            continue
        else:
            allowed += 2
        if allowed == waits:
            break
    return (FOUND + excess, waits) if excess <= most else (OPEN, 0)


@compiled
def least_makespan(space, agents, most, stride, free_low, free_high):
    """FOUND + the least makespan with a plan in `paths`, OPEN if it exceeds `most`, or GIVEN_UP.

    An MDD of a cost holds every path that is at its goal from then on, so it is enough to give all agents the same cost.
    """
    longest, shortest = 0, LONGEST
    for agent in range(agents):
        longest = max(longest, space.distance[agent])
        shortest = min(shortest, space.distance[agent])
    for makespan in range(longest, min(most, LONGEST - 1) + 1):
        if makespan - shortest >= LEVELS:
            return GIVEN_UP
        possible = True
        for agent in range(agents):
            space.excess[agent] = makespan - space.distance[agent]
            build_mdd(space, agent, space.excess[agent], 0, stride, free_low, free_high)
            for other in range(agent):
                possible = possible and _possible(space, other, agent, 0, stride, free_low, free_high)
        if possible:
            result = _settle(space, agents, ANY_WAITS, 0, stride, free_low, free_high)
            if result == FOUND:
                return FOUND + makespan
            if result == GIVEN_UP:
                return GIVEN_UP
    return OPEN
