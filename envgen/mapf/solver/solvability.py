"""Whether a group of agents can reach their goals at all: a search by moves of one agent, compiled."""

from typing import NamedTuple

import numpy as np

from envgen.mapf.compiled import compiled, inlined
from envgen.mapf.solver.bitboard import CELLS, NONE, holds, word_pair
from envgen.mapf.solver.component import COUNT, FULL, place
from envgen.mapf.solver.diagrams import AGENTS, FOUND, GIVEN_UP, NOT_FOUND

SHORT_WHILE = 300
"""Joint positions of the first attempt to prove a group solvable."""

GENERATION, ENTRIES, OPENED, HIGHEST = range(4)
_KEY_BITS = np.uint64(7 * AGENTS)
_FARTHEST = AGENTS * CELLS


class SolvabilitySpace(NamedTuple):
    """Working memory: a table of the joint positions seen and an open list by the sum of distances."""

    component: np.void
    counters: np.ndarray
    before: np.ndarray
    after: np.ndarray
    keys: np.ndarray
    node_keys: np.ndarray
    node_links: np.ndarray
    heads: np.ndarray


def solvability_space(component: np.void, entries: int) -> SolvabilitySpace:
    """Fresh working memory for `entries` joint positions, a power of two; 20 bytes an entry."""
    space = SolvabilitySpace(
        component=component,
        counters=np.zeros(4, np.int64),
        before=np.zeros(AGENTS, np.int64),
        after=np.zeros(AGENTS, np.int64),
        keys=np.zeros(entries, dtype=np.uint64),
        node_keys=np.zeros(entries, dtype=np.uint64),
        node_links=np.zeros(entries, dtype=np.int32),
        heads=np.full(_FARTHEST, -1, dtype=np.int64),
    )
    space.counters[ENTRIES] = entries
    return space


@inlined
def _push(space, positions):
    """Put a joint position into the open list; False if the table is full."""
    component = space.component
    key = np.uint64(space.counters[GENERATION])
    ahead = 0
    for agent in range(component.counters[COUNT]):
        key = (key << np.uint64(7)) | np.uint64(positions[agent])
        ahead += component.distance[agent, positions[agent]]
    key <<= np.uint64(7 * (AGENTS - component.counters[COUNT]))
    mask = space.counters[ENTRIES] - 1
    slot = np.int64((key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)) & mask
    while space.keys[slot] >> _KEY_BITS == np.uint64(space.counters[GENERATION]):
        if space.keys[slot] == key:
            return True
        slot = (slot + 1) & mask
    node = space.counters[OPENED]
    if node > space.counters[ENTRIES] * 7 // 10:
        return False
    space.keys[slot] = key
    space.node_keys[node] = key
    space.node_links[node] = space.heads[ahead]
    space.heads[ahead] = node
    space.counters[HIGHEST] = max(space.counters[HIGHEST], ahead)
    space.counters[OPENED] = node + 1
    return True


@compiled
def _pop(space, ahead):
    """Take a joint position of that sum of distances off the open list, into `before`."""
    node = space.heads[ahead]
    space.heads[ahead] = space.node_links[node]
    key = space.node_keys[node] >> np.uint64(7 * (AGENTS - space.component.counters[COUNT]))
    for agent in range(space.component.counters[COUNT] - 1, -1, -1):
        space.before[agent] = np.int64(key & np.uint64(127))
        key >>= np.uint64(7)


@compiled
def _clear(space):
    space.heads[: space.counters[HIGHEST] + 1] = -1
    space.counters[HIGHEST] = space.counters[OPENED] = 0
    space.counters[GENERATION] += 1
    if space.counters[GENERATION] >= 1 << 29:
        space.keys[:] = NONE
        space.counters[GENERATION] = 1


@inlined
def _push_turns(space, members, agent, taken_low, taken_high, stride):
    """Push both turns of the 2x2 block whose first corner is under `agent`, if four agents fill it.

    False if the table is full.
    """
    component, before, after = space.component, space.before, space.after
    corner = component.cell[before[agent]]
    across, below = corner + 1, corner + np.int64(stride)
    if below + 1 >= CELLS:
        return True
    if not (
        holds(taken_low, taken_high, across)
        and holds(taken_low, taken_high, below)
        and holds(taken_low, taken_high, below + 1)
    ):
        return True
    pushed = True
    for turn in range(2):
        for other in range(component.counters[COUNT]):
            cell = component.cell[before[other]]
            if (members >> other) & 1 == 0:
                continue
            if cell == corner:
                after[other] = component.number[below if turn else across]
            elif cell == across:
                after[other] = component.number[corner if turn else below + 1]
            elif cell == below + 1:
                after[other] = component.number[across if turn else below]
            elif cell == below:
                after[other] = component.number[below + 1 if turn else corner]
        pushed = pushed and _push(space, after)
    for other in range(component.counters[COUNT]):
        after[other] = before[other]
    return pushed


@compiled
def _solvable(space, members, steps, stride):
    """Whether the agents in the mask `members` can reach their goals: greedy best-first over their positions.

    One agent moves at a time, or four turn round a block: agents that move in one step form rows behind an
    empty cell, which can move one after another, or a ring, and with five agents the only ring on a grid is a
    block of 2x2 cells. The agents left out are at their goals and nobody's obstacle. NOT_FOUND is a proof;
    GIVEN_UP after `steps` positions, FULL if the table is too small.
    """
    _clear(space)
    component, before, after = space.component, space.before, space.after
    count = component.counters[COUNT]
    for agent in range(count):
        before[agent] = component.start[agent] if (members >> agent) & 1 else component.goal[agent]
    _push(space, before)
    low = 0
    while True:
        low = max(0, low - 4)  # one turn of a block brings four agents nearer
        while low <= space.counters[HIGHEST] and space.heads[low] < 0:
            low += 1
        if low == 0:
            return FOUND
        if low > space.counters[HIGHEST]:
            return NOT_FOUND
        steps -= 1
        if steps < 0:
            return GIVEN_UP
        _pop(space, low)
        taken_low, taken_high = NONE, NONE
        for agent in range(count):
            after[agent] = before[agent]
            if (members >> agent) & 1:
                bit_low, bit_high = word_pair(component.cell[before[agent]])
                taken_low |= bit_low
                taken_high |= bit_high
        for agent in range(count):
            if (members >> agent) & 1 == 0:
                continue
            here = before[agent]
            for way in range(component.degree[here]):
                there = component.near[here, way]
                if not holds(taken_low, taken_high, component.cell[there]):
                    after[agent] = there
                    if not _push(space, after):
                        return FULL
            after[agent] = here
            if not _push_turns(space, members, agent, taken_low, taken_high, stride):
                return FULL


@compiled
def prove_solvable(space, count, steps, stride, free_low, free_high):
    """Whether one group of agents can reach their goals at all.

    FOUND, NOT_FOUND, GIVEN_UP after `steps` positions, or FULL. All agents for a short while first; where
    that leaves it open, every two, every three and so on, since a few agents that cannot pass each other are
    found far sooner without the others.
    """
    place(space.component, count, stride, free_low, free_high)
    everyone = (1 << count) - 1
    result = _solvable(space, everyone, SHORT_WHILE, stride)
    if result != GIVEN_UP:
        return result
    for size in range(2, count + 1):
        for members in range(everyone + 1):
            chosen = 0
            for agent in range(count):
                chosen += (members >> agent) & 1
            if chosen == size:
                result = _solvable(space, members, steps, stride)
                if result in (NOT_FOUND, FULL):
                    return result
    return result
