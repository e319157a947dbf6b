"""Joint positions: a hash table of those seen, and an open list that holds a stack for each bucket."""

import numpy as np
from numba import njit

from envgen.mapf.solver.memory import AGENTS, FULL, LEVEL

_STATE_BITS, _STATE_MASK = np.uint64(7), np.uint64(127)
_KEY_BITS = np.uint64(7 * AGENTS)
_MULTIPLIER, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(20)


@njit
def clear(m, entries):
    """Empty table and open list; the table gets `entries` slots, a power of two."""
    m.heads[: m.highest + 1] = -1
    m.highest = m.used = m.opened = 0
    m.entries = entries
    m.generation += 1
    if m.generation == 1 << 29:
        m.keys[:] = np.uint64(0)
        m.generation = 1


@njit
def slot_of(m):
    """Slot of the joint position `m.after`, and whether it was there before; slot FULL if it does not fit."""
    key = np.uint64(m.generation)
    for rank in range(AGENTS):
        key = (key << _STATE_BITS) | np.uint64(m.after[rank] if rank < m.count else 0)
    slot = np.int64((key * _MULTIPLIER) >> _SHIFT) & (m.entries - 1)
    while m.keys[slot] >> _KEY_BITS == np.uint64(m.generation):
        if m.keys[slot] == key:
            return slot, True
        slot = (slot + 1) & (m.entries - 1)
    if m.used >= m.entries * 7 // 10:
        return FULL, False
    m.used += 1
    m.keys[slot] = key
    return slot, False


@njit
def read_slot(m, slot):
    """Put the joint position of a slot into `m.before`."""
    read_key(m, m.keys[slot])


@njit
def read_key(m, key):
    """Put the joint position of a key into `m.before`."""
    for rank in range(AGENTS - 1, -1, -1):
        m.before[rank] = np.int64(key & _STATE_MASK)
        key >>= _STATE_BITS


@njit
def bucket_of(cost):
    """Bucket of a cost: costs in ascending order, since waits never exceed the excess."""
    excess = cost // LEVEL
    return excess * (excess + 1) // 2 + cost % LEVEL


@njit
def push(m, item, bucket):
    """Put an item into the open list; False if the list is full."""
    if m.opened == len(m.node_slot):
        return False
    m.highest = max(m.highest, bucket)
    m.node_slot[m.opened] = item
    m.node_link[m.opened] = m.heads[bucket]
    m.heads[bucket] = m.opened
    m.opened += 1
    return True


@njit
def next_bucket(m, bucket):
    """First bucket from `bucket` on that is not empty; -1 if there is none."""
    while bucket <= m.highest:
        if m.heads[bucket] >= 0:
            return bucket
        bucket += 1
    return -1


@njit
def pop(m, bucket):
    """Take the item off a bucket that was pushed last."""
    node = m.heads[bucket]
    m.heads[bucket] = m.node_link[node]
    return np.int64(m.node_slot[node])
