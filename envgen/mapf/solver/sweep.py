"""Joint plans of agents in their diagrams, compiled: all joint positions step by step.

The agents are the members, listed in `members` of the working memory. Of the ways into a joint position the
one with the fewest waits counts.
"""

from envgen.mapf.compiled import compiled
from envgen.mapf.solver.bitboard import both, is_empty, lowest, only, read, within_a_step, without, write
from envgen.mapf.solver.diagrams import allowed_cost, pair_index
from envgen.mapf.solver.memory import FOUND, FULL, GIVEN_UP, LAYERS, NOT_FOUND
from envgen.mapf.solver.positions import clear, pack_states, slot_of, unpack_states

SLOTS = (1 << 13, 1 << 17, 1 << 22)
"""Slots of a first sweep, which stay in processor caches, and of others after it."""


@compiled
def sweep(m, count, most):
    """Plan the members inside their diagrams: FOUND + fewest waits with `paths` filled.

    NOT_FOUND if every plan has more than `most` waits, GIVEN_UP if there are too many joint positions.
    """
    nodes, result = m.nodes, FULL
    for slots in SLOTS:
        if result == FULL:
            m.nodes = nodes
            result = _sweep_layers(m, count, most, slots)
    return result


@compiled
def _sweep_layers(m, count, most, slots):
    last = 0
    for rank in range(count):
        last = max(last, allowed_cost(m, m.members[rank]))
        m.after[rank] = m.starts[m.members[rank]]
    clear(m, slots)
    first, size = 0, _enter(m, 0, 0, count, -1, 0)
    for step in range(1, last + 1):
        clear(m, slots)
        end = size
        for entry in range(first, end):
            m.nodes += 1
            size = _follow(m, entry, end, size, count, step, most)
            if size < 0:
                return size
        if m.nodes > m.node_limit:
            return GIVEN_UP
        if size == end:
            return NOT_FOUND
        first = end
    entry = size - 1  # the goals
    waits = m.layer_waits[entry]
    for step in range(m.horizon, -1, -1):
        if step < last:
            entry = m.layer_parents[entry]
        unpack_states(m.layer_keys[entry], m.before, count)
        for rank in range(count):
            m.paths[m.members[rank], step] = m.before[rank]
    return FOUND + waits


@compiled
def _enter(m, first, size, count, parent, waits):
    """Enter the joint position `after` into the layer from `first` to `size`.

    Returns where the layer ends then, FULL or GIVEN_UP.
    """
    key = pack_states(m.after, count)
    slot, seen = slot_of(m, key)
    if slot == FULL:
        return FULL
    entry = first + m.parents[slot] if seen else size
    if seen and m.layer_waits[entry] <= waits:
        return size
    if entry == LAYERS:
        return GIVEN_UP
    m.parents[slot] = entry - first
    m.layer_keys[entry], m.layer_parents[entry], m.layer_waits[entry] = key, parent, waits
    return size if seen else size + 1


@compiled
def _follow(m, entry, first, size, count, step, most):
    """Enter all that follows an entry at `step`; where the layer ends then, FULL or GIVEN_UP."""
    unpack_states(m.layer_keys[entry], m.before, count)
    rank = 0
    _list_choices(m, 0, step)
    while rank >= 0:
        choices = read(m.choices[rank])
        if is_empty(choices):
            rank -= 1
            continue
        m.after[rank] = lowest(choices)
        write(m.choices[rank], without(choices, only(m.after[rank])))
        if rank < count - 1:
            rank += 1
            _list_choices(m, rank, step)
            continue
        waits = m.layer_waits[entry]
        for member in range(count):
            stayed = m.after[member] == m.before[member]
            waits += stayed and step <= allowed_cost(m, m.members[member])
        if waits <= most:
            size = _enter(m, first, size, count, entry, waits)
            if size < 0:
                return size
    return size


@compiled
def _list_choices(m, rank, step):
    """List the cells that member `rank` may enter at `step`, past the moves of the members before it."""
    agent, here = m.members[rank], m.before[rank]
    cost, cells = allowed_cost(m, agent), only(here)
    if step <= cost:
        cells = both(within_a_step(m, cells), read(m.diagrams[agent, m.excess[agent], step]))
    for earlier in range(rank):
        other, target = m.members[earlier], m.after[earlier]
        pair = pair_index(other, agent)
        if m.meets[pair] and step <= max(cost, allowed_cost(m, other)):
            cells = both(cells, read(m.tables[pair, step, target]))
        if target == here:
            cells = without(cells, only(m.before[earlier]))
    write(m.choices[rank], cells)
