"""Joint plans of agents in their diagrams, compiled: depth-first search, given up after a while.

The agents are the members, listed in `members` of the working memory.
"""

import numpy as np

from envgen.mapf.compiled import compiled
from envgen.mapf.solver.bitboard import both, is_empty, lowest, only, read, within_a_step, without, write
from envgen.mapf.solver.diagrams import allowed_cost, level_of, pair_index
from envgen.mapf.solver.memory import ANY_WAITS, FOUND, GIVEN_UP, NOT_FOUND


@compiled
def last_step(m, count):
    """The last step at which a member may arrive."""
    last = 0
    for rank in range(count):
        last = max(last, allowed_cost(m, m.members[rank]))
    return last


@compiled
def past_table(m, other, target, agent, step, cells):
    """The cells from which an agent can still finish if an earlier one goes to `target` at `step`."""
    pair = pair_index(other, agent)
    if m.meets[pair] and step <= max(allowed_cost(m, agent), allowed_cost(m, other)):
        return both(cells, read(m.tables[pair, step, target]))
    return cells


@compiled
def list_choices(m, rank, row, step):
    """List the cells that member `rank` may enter at `step`, past the moves of the members before it.

    Their positions are in `row` and the one before.
    """
    agent, before = m.members[rank], m.position[row - 1, rank]
    cells = only(before)
    if step <= allowed_cost(m, agent):
        cells = both(within_a_step(m, cells), read(m.diagrams[agent, level_of(m, agent), step]))
    for earlier in range(rank):
        target = m.position[row, earlier]
        cells = past_table(m, m.members[earlier], target, agent, step, cells)
        if target == before:
            cells = without(cells, only(m.position[row - 1, earlier]))
    write(m.choices[row, rank], cells)


@compiled
def _seen(m, count, step):
    """Mark the joint position at `step`; True if it was marked before in this search."""
    key = np.uint64(step << 7 | m.used[step])
    for rank in range(count):
        key = (key << np.uint64(7)) | np.uint64(m.position[step, rank])
    for entry in range(m.seen_count):
        if m.seen[entry] == key:
            return True
    m.seen[m.seen_count] = key
    m.seen_count += 1
    return False


@compiled
def waiting(m, count, row, step):
    """How many members wait at `step`: stay where they were, before they may have arrived.

    Their positions are in `row` and the one before.
    """
    waits = 0
    for rank in range(count):
        stayed = m.position[row, rank] == m.position[row - 1, rank]
        waits += stayed and step <= allowed_cost(m, m.members[rank])
    return waits


@compiled
def search_depth_first(m, count, waits, nodes):
    """Search a joint plan of the members inside their diagrams with at most `waits` waits; fills `paths`.

    GIVEN_UP after `nodes` joint moves, or at the node limit of the board.
    """
    last, step = last_step(m, count), 0
    m.seen_count = m.used[0] = 0
    for rank in range(count):
        m.position[0, rank] = m.starts[m.members[rank]]
    rank = count
    while True:
        if rank == count:
            if step == last:
                break
            step, rank = step + 1, 0
            list_choices(m, 0, step, step)
        cells = read(m.choices[step, rank])
        if is_empty(cells):
            rank -= 1
            if rank < 0:
                step -= 1
                if step == 0:
                    return NOT_FOUND
                rank = count - 1
            continue
        cell = m.position[step - 1, rank]
        moving = without(cells, only(cell))
        if not is_empty(moving):
            cell = lowest(moving)
        write(m.choices[step, rank], without(cells, only(cell)))
        m.position[step, rank] = cell
        if rank < count - 1:
            rank += 1
            list_choices(m, rank, step, step)
            continue
        m.nodes += 1
        nodes -= 1
        if nodes < 0 or m.nodes > m.node_limit:
            return GIVEN_UP
        m.used[step] = m.used[step - 1]
        if waits != ANY_WAITS:
            m.used[step] += waiting(m, count, step, step)
            if m.used[step] > waits:
                continue
        if step == last or not _seen(m, count, step):
            rank = count
    for rank in range(count):
        agent = m.members[rank]
        for at in range(m.horizon + 1):
            m.paths[agent, at] = m.position[min(at, step), rank]
    return FOUND
