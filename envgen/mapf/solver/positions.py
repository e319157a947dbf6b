"""Joint positions, compiled: a hash table, and an open list that holds a stack for each bucket."""

import numpy as np

from envgen.mapf.compiled import compiled
from envgen.mapf.solver.memory import AGENTS, FULL

_STATE_BITS, _STATE = np.uint64(7), np.uint64(127)
_KEY_BITS = np.uint64(7 * AGENTS)
_MULTIPLIER, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(20)


@compiled
def clear(m, entries):
    """Empty table and open list; the table gets `entries` slots, a power of two."""
    m.heads[: m.highest + 1] = -1
    m.highest = m.taken = m.opened = 0
    m.entries = entries
    m.generation += 1
    if m.generation == 1 << 29:
        m.keys[:] = np.uint64(0)
        m.generation = 1


@compiled
def pack_states(states, count):
    """The key of the first `count` states, each below 128."""
    key = np.uint64(0)
    for index in range(count):
        key = (key << _STATE_BITS) | np.uint64(states[index])
    return key


@compiled
def unpack_states(key, states, count):
    """Put the states of a key into the first `count` places of `states`."""
    for index in range(count - 1, -1, -1):
        states[index] = np.int64(key & _STATE)
        key >>= _STATE_BITS


@compiled
def slot_of(m, key):
    """The slot of a key, which is entered, and whether it was there before; slot FULL if there is no room."""
    key |= np.uint64(m.generation) << _KEY_BITS
    slot = np.int64((key * _MULTIPLIER) >> _SHIFT) & (m.entries - 1)
    while m.keys[slot] >> _KEY_BITS == np.uint64(m.generation):
        if m.keys[slot] == key:
            return slot, True
        slot = (slot + 1) & (m.entries - 1)
    if m.taken >= m.entries * 7 // 10:
        return FULL, False
    m.taken += 1
    m.keys[slot] = key
    return slot, False


@compiled
def push(m, slot, bucket):
    """Put a slot into the open list; False if the list is full."""
    node = m.opened
    if node == 2 * m.entries:
        return False
    m.highest = max(m.highest, bucket)
    m.node_slots[node] = slot
    m.node_links[node] = m.heads[bucket]
    m.heads[bucket] = node
    m.opened = node + 1
    return True


@compiled
def next_bucket(m, bucket):
    """The first bucket from `bucket` on that is not empty; -1 if there is none."""
    while bucket <= m.highest:
        if m.heads[bucket] >= 0:
            return bucket
        bucket += 1
    return -1


@compiled
def pop(m, bucket):
    """Take the slot off a bucket that was pushed last."""
    node = m.heads[bucket]
    m.heads[bucket] = m.node_links[node]
    return np.int64(m.node_slots[node])
