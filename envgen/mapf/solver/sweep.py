"""Joint plans of agents in their diagrams, compiled: a sweep by step, where depth-first search gives up.

The agents are the members, listed in `members` of the working memory.
"""

import numpy as np

from envgen.mapf.compiled import compiled
from envgen.mapf.solver.bitboard import both, either, is_empty, lowest, neighbours, only, read, without, write
from envgen.mapf.solver.depth_first import last_step, list_choices, past_table, waiting
from envgen.mapf.solver.diagrams import allowed_cost, level_of, without_swap
from envgen.mapf.solver.memory import ANY_WAITS, FOUND, FULL, GIVEN_UP, LAYERS, NOT_FOUND
from envgen.mapf.solver.positions import clear, pack_states, slot_of, unpack_states

FEW_SLOTS, MANY_SLOTS = 1 << 13, 1 << 22
"""Slots of a first sweep, which stay in processor caches, and of a second."""


@compiled
def sweep(m, count, waits):
    """Whether the members can finish with at most `waits` waits.

    All joint positions step by step, the last member as a set of cells. Slower than depth-first search where
    there is a plan, many times faster where there is none. GIVEN_UP if there are too many.
    """
    nodes, result = m.nodes, FULL
    for slots in (FEW_SLOTS, MANY_SLOTS):
        if result == FULL:
            m.nodes = nodes
            result = _sweep_layers(m, count, waits, slots)
    return result


@compiled
def _sweep_layers(m, count, waits, slots):
    last = last_step(m, count)
    clear(m, slots)
    for rank in range(count):
        m.position[1, rank] = m.starts[m.members[rank]]
    m.layer_begin[0] = 0
    m.layer_begin[1] = size = _enter(m, 0, count, 0, only(m.position[1, count - 1]))
    for step in range(1, last + 1):
        clear(m, slots)
        for entry in range(m.layer_begin[step - 1], m.layer_begin[step]):
            m.nodes += 1
            size = _follow(m, entry, size, count, step, waits)
            if size < 0:
                return size
        if m.nodes > m.node_limit:
            return GIVEN_UP
        if size == m.layer_begin[step]:
            return NOT_FOUND
        m.layer_begin[step + 1] = size
    return FOUND


@compiled
def _enter(m, size, count, used, cells):
    """Add cells of the last member to the entry of the others' positions, in a layer that ends at `size`.

    Returns where it ends after that, FULL or GIVEN_UP.
    """
    key = pack_states(m.position[1], count - 1) << np.uint64(7) | np.uint64(used)
    slot, seen = slot_of(m, key)
    if seen:
        row = m.layer_cells[m.parents[slot]]
        write(row, either(read(row), cells))
        return size
    if slot == FULL:
        return FULL
    if size + 2 > LAYERS:
        return GIVEN_UP
    m.parents[slot] = size
    m.layer_keys[size] = key
    write(m.layer_cells[size], cells)
    return size + 1


@compiled
def _read_entry(m, entry, count):
    """Put an entry's positions into row 0 of `position`; its waits so far."""
    key = m.layer_keys[entry]
    unpack_states(key >> np.uint64(7), m.position[0], count - 1)
    return np.int64(key & np.uint64(127))


@compiled
def _follow(m, entry, size, count, step, waits):
    """Enter all that follows an entry at `step`; where the layer ends after that, FULL or GIVEN_UP."""
    used, rank = _read_entry(m, entry, count), 0
    list_choices(m, 0, 1, step)
    while rank >= 0:
        choices = read(m.choices[1, rank])
        if is_empty(choices):
            rank -= 1
            continue
        cell = lowest(choices)
        write(m.choices[1, rank], without(choices, only(cell)))
        m.position[1, rank] = cell
        if rank < count - 2:
            rank += 1
            list_choices(m, rank, 1, step)
            continue
        size = _enter_next(m, entry, size, count, step, used, waits)
        if size < 0:
            return size
    return size


@compiled
def _enter_next(m, entry, size, count, step, used, waits):
    """Enter where the last member may be at `step` when the others move as `position` says."""
    agent, cells = m.members[count - 1], read(m.layer_cells[entry])
    moving = step <= allowed_cost(m, agent)
    counted = waits != ANY_WAITS
    if counted:
        used += waiting(m, count - 1, 1, step)
    for staying in range(2 if counted and moving else 1):
        if used + staying > waits:
            break
        near = cells
        if moving:
            if not staying:
                near = neighbours(m, cells)
                near = near if m.strict or counted else either(near, cells)
            near = both(near, read(m.diagrams[agent, level_of(m, agent), step]))
        for rank in range(count - 1):
            before, after = m.position[0, rank], m.position[1, rank]
            near = past_table(m, m.members[rank], after, agent, step, near)
            if not staying:
                near = without_swap(m, cells, near, before, after)
        if not is_empty(near):
            size = _enter(m, size, count, used + staying, near)
            if size < 0:
                return size
    return size


@compiled
def walk_back(m, count, waits):
    """Fill `paths` with a plan of the members, read backwards from the layers of the sweep that found one."""
    last = last_step(m, count)
    for rank in range(count):
        agent = m.members[rank]
        for step in range(m.horizon + 1):
            m.paths[agent, step] = m.goals[agent]
    spent = np.int64(m.layer_keys[m.layer_begin[last]] & np.uint64(127))
    for step in range(last, 0, -1):
        for entry in range(m.layer_begin[step - 1], m.layer_begin[step]):
            used = _read_entry(m, entry, count)
            cell = _last_cell(m, entry, count, step, waits == ANY_WAITS, spent - used)
            if cell >= 0:
                spent, m.position[0, count - 1] = used, cell
                break
        for rank in range(count):
            m.paths[m.members[rank], step - 1] = m.position[0, rank]


@compiled
def _last_cell(m, entry, count, step, free, waits):
    """A cell of the last member in an entry from which `paths` goes on with so many waits, any if `free`."""
    cells = read(m.layer_cells[entry])
    while not is_empty(cells):
        cell = lowest(cells)
        cells = without(cells, only(cell))
        m.position[0, count - 1] = cell
        stays = _stays(m, count, step)
        if stays >= 0 and (free or stays == waits):
            return cell
    return -1


@compiled
def _stays(m, count, step):
    """Waits if the members go from row 0 of `position` to where `paths` has them; -1 if they cannot."""
    waits = 0
    for rank in range(count):
        agent = m.members[rank]
        before, after = m.position[0, rank], m.paths[agent, step]
        away = abs(before - after)
        if not (away == 0 or away == 1 or away == np.int64(m.stride)):
            return -1
        if step <= allowed_cost(m, agent):
            waits += away == 0
        elif away != 0:
            return -1
        for earlier in range(rank):
            if m.position[0, earlier] == after and m.paths[m.members[earlier], step] == before:
                return -1
    return waits
