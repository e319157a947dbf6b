"""Whether a group of agents can reach its goals at all: a search by moves of one agent."""

from numba import njit

from envgen.mapf.solver.memory import FULL, UNSOLVABLE
from envgen.mapf.solver.positions import clear, next_bucket, pop, push, read_slot, slot_of

SOLVABLE = 0
TRIES = 300, 10_000
"""Positions that are tried for all members, and then for every set of them, before the table decides."""
FEW_ENTRIES = 1 << 16


@njit
def prove_solvable(m, entries):
    """Return SOLVABLE, UNSOLVABLE, or FULL if `entries` slots are too few to say.

    All members first; where that leaves it open, every two, every three and so on, since a few agents that
    cannot pass each other are found far sooner without the others.
    """
    everyone = (1 << m.count) - 1
    few = min(FEW_ENTRIES, entries)
    result = _reach_goals(m, everyone, TRIES[0], few)
    for tries, room in ((TRIES[1], few), (entries, entries)):
        for size in range(2, m.count + 1):
            for chosen in range(everyone + 1):
                if result == FULL and _bit_count(chosen) == size:
                    part = _reach_goals(m, chosen, tries, room)
                    if part == UNSOLVABLE or chosen == everyone:
                        result = part
    return result


@njit
def _bit_count(mask):
    count = 0
    while mask:
        count += mask & 1
        mask >>= 1
    return count


@njit
def _reach_goals(m, chosen, tries, entries):
    """Search the positions of the ranks in the mask `chosen`, nearest to the goals first.

    One agent moves at a time, or four turn round a block: agents that move in one step form rows behind an
    empty cell, which can move one after another, or a ring, and with five agents the only ring on a grid is a
    block of 2x2 cells. The other members are on their goals and in nobody's way. UNSOLVABLE is a proof.
    """
    clear(m, entries)
    for rank in range(m.count):
        agent = m.members[rank]
        m.after[rank] = m.start[agent] if (chosen >> rank) & 1 else m.goal[agent]
    _enter(m)
    bucket = next_bucket(m, 0)
    while bucket > 0:
        read_slot(m, pop(m, bucket))
        tries -= 1
        if tries < 0 or not _enter_moves(m, chosen):
            return FULL
        bucket = next_bucket(m, max(0, bucket - 4))  # a turn of a block brings four agents nearer
    return SOLVABLE if bucket == 0 else UNSOLVABLE


@njit
def _enter(m):
    """Enter the position `m.after` by the sum of its distances; False if it does not fit."""
    slot, seen = slot_of(m)
    total = 0
    for rank in range(m.count):
        total += m.distance[m.members[rank], m.after[rank]]
    return slot != FULL and (seen or push(m, slot, total))


@njit
def _enter_moves(m, chosen):
    """Enter the successors of `m.before`; False if one does not fit."""
    for rank in range(m.count):
        m.after[rank] = m.before[rank]
    for rank in range(m.count):
        if (chosen >> rank) & 1 == 0:
            continue
        here = m.before[rank]
        for way in range(m.degree[here]):
            m.after[rank] = m.near[here, way]
            if _rank_on(m, chosen, m.after[rank]) < 0 and not _enter(m):
                return False
        m.after[rank] = here
        if not _enter_turns(m, chosen, here):
            return False
    return True


@njit
def _rank_on(m, chosen, cell):
    """The chosen rank on a cell before the move; -1 if there is none."""
    for rank in range(m.count):
        if (chosen >> rank) & 1 and m.before[rank] == cell:
            return rank
    return -1


@njit
def _enter_turns(m, chosen, corner):
    """Enter both turns of the 2x2 block right of and below `corner`, if four agents fill it."""
    if corner % m.size == m.size - 1 or corner + m.size >= m.size * m.size:
        return True
    ring = corner, corner + 1, corner + m.size + 1, corner + m.size
    for cell in ring:
        if _rank_on(m, chosen, cell) < 0:
            return True
    fits = True
    for turn in (1, 3, 4):  # 4 leaves `m.after` as it was
        for index in range(4):
            m.after[_rank_on(m, chosen, ring[index])] = ring[(index + turn) % 4]
        fits = fits and (turn == 4 or _enter(m))
    return fits
