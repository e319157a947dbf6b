"""Multi-value decision diagrams (MDDs) of agents, and the working memory of the cost tree, compiled.

The diagram of a cost holds, per step, the cells on some path that is at its goal from that cost on.
"""

import numpy as np

from envgen.mapf.compiled import compiled
from envgen.mapf.solver.bitboard import CELLS, NONE, holds, lowest, neighbours, within_a_step, word_pair

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
"""Hash table size of one step of a sweep, a power of two: small at first, to stay in processor caches."""
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
        # [pair, excess of the first]: stamp and 255 less the least excess of the second with which both can
        # finish
        ("enough", _INTEGERS, (PAIRS, LEVELS)),
        # [pair, excess of the first]: stamp and the largest excess of the second with which they cannot
        ("short", _INTEGERS, (PAIRS, LEVELS)),
        ("strict_verdicts", _INTEGERS, (PAIRS, LEVELS, LEVELS)),
        # [pair]: whether the MDDs of the vector at hand meet
        ("meets", _INTEGERS, (PAIRS,)),
        # [entry, 3 + agent]: mask, whether waiting is forbidden, verdict and excesses of sets of three agents
        # and more
        ("decided", _INTEGERS, (DECIDED, 3 + AGENTS)),
        ("table_keys", _INTEGERS, (PAIRS,)),
        # [pair, step, cell of the first agent, 2]: cells of the second agent from which both can still
        # finish; one to spare
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

One record, so that a call passes one pointer and the compiler knows every shape. Words are uint64, the last
axis holds the two words of a bitboard.
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
    """The MDD of a cost; False if it is empty. `strict` forbids waiting before the last arrival."""
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
            near_low, near_high = within_a_step(low, high, strict, stride, free_low, free_high)
            low = near_low & reach[cost - step, 0]
            high = near_high & reach[cost - step, 1]
            mdd[step, 0] = low
            mdd[step, 1] = high
    cost = space.distance[agent] + excess
    return (space.mdds[agent, level, cost, 0] | space.mdds[agent, level, cost, 1]) != NONE


@compiled
def allowed_cost(space, agent):
    """What an agent may cost in the vector at hand."""
    return space.distance[agent] + space.excess[agent]


@compiled
def _ordered(order, rank, agents):
    if order == 0:
        return rank
    if order == 1:
        return agents - 1 - rank
    return (rank + 1) % agents


@compiled
def enlist(space, agents):
    """Make all agents the members, and the horizon the last of their arrivals."""
    horizon = 0
    for agent in range(agents):
        space.members[agent] = agent
        horizon = max(horizon, allowed_cost(space, agent))
    space.counters[HORIZON] = horizon


@compiled
def prioritised(space, count, order, strict, stride, free_low, free_high):
    """Plan the members one by one inside their MDDs; True with `paths` filled is a proof, False is none."""
    horizon, paths, queue = space.counters[HORIZON], space.paths, space.queue
    for rank in range(count):
        queue[rank] = space.members[_ordered(order, rank, count)]
    for rank in range(count):
        agent = queue[rank]
        cost = allowed_cost(space, agent)
        mdd = space.mdds[agent, 2 * space.excess[agent] + strict]
        front = space.front[:] if rank else mdd  # nothing is in the way of the first
        low, high = mdd[0, 0], mdd[0, 1]
        front[0, 0] = low
        front[0, 1] = high
        for step in range(1, cost + 1 if rank else 1):
            near_low, near_high = within_a_step(low, high, strict, stride, free_low, free_high)
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
