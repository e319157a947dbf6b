"""Whether a group of agents can reach its goals at all: a search by moves of one agent, compiled."""

from envgen.mapf.compiled import compiled
from envgen.mapf.solver.bitboard import either, flood, is_empty, lowest, neighbours, only, without
from envgen.mapf.solver.memory import CELLS, ENTRIES, FOUND, FULL, GIVEN_UP, NOT_FOUND
from envgen.mapf.solver.positions import clear, next_bucket, pack_states, pop, push, slot_of, unpack_states

SHORT_WHILE = 300
"""Joint positions of the first attempt to prove a group solvable."""
FEW_SLOTS = 1 << 16


@compiled
def prove_solvable(m, steps):
    """Whether a group of agents can reach its goals at all.

    FOUND, NOT_FOUND, GIVEN_UP after `steps` positions of a set of agents, or FULL. All agents for a short
    while first; where that leaves it open, every two, every three and so on, since a few agents that cannot
    pass each other are found far sooner without the others.
    """
    _link_cells(m)
    slots, result = FEW_SLOTS, FULL
    while result == FULL and slots <= ENTRIES:
        result = _prove(m, steps, slots)
        slots *= 16
    return result


@compiled
def _link_cells(m):
    """Link the cells of the component, and measure every agent's distances."""
    rest = flood(m, m.goals[0])
    while not is_empty(rest):
        cell = lowest(rest)
        rest, near = without(rest, only(cell)), neighbours(m, only(cell))
        m.degree[cell] = 0
        while not is_empty(near):
            m.near[cell, m.degree[cell]] = lowest(near)
            near = without(near, only(lowest(near)))
            m.degree[cell] += 1
    for agent in range(m.agents):
        layer, steps = only(m.goals[agent]), 0
        seen = layer
        while not is_empty(layer):
            rest = layer
            while not is_empty(rest):
                m.moves_to_goal[agent, lowest(rest)] = steps
                rest = without(rest, only(lowest(rest)))
            layer, steps = without(neighbours(m, layer), seen), steps + 1
            seen = either(seen, layer)


@compiled
def _prove(m, steps, slots):
    everyone = (1 << m.agents) - 1
    result = _reach_goals(m, everyone, SHORT_WHILE, slots)
    if result != GIVEN_UP:
        return result
    for size in range(2, m.agents + 1):
        for members in range(everyone + 1):
            count = 0
            for agent in range(m.agents):
                count += (members >> agent) & 1
            if count == size:
                result = _reach_goals(m, members, steps, slots)
                if result in (NOT_FOUND, FULL):
                    return result
    return result


@compiled
def _reach_goals(m, members, steps, slots):
    """Whether the agents in the mask `members` can reach their goals: greedy best-first over their positions.

    One agent moves at a time, or four turn round a block: agents that move in one step form rows behind an
    empty cell, which can move one after another, or a ring, and with five agents the only ring on a grid is a
    block of 2x2 cells. The agents left out are at their goals and nobody's obstacle. NOT_FOUND is a proof.
    """
    clear(m, slots)
    for agent in range(m.agents):
        m.after[agent] = m.starts[agent] if (members >> agent) & 1 else m.goals[agent]
    _enter(m)
    bucket = next_bucket(m, 0)
    while bucket > 0:
        steps -= 1
        if steps < 0:
            return GIVEN_UP
        unpack_states(m.keys[pop(m, bucket)], m.before, m.agents)
        if not _enter_moves(m, members):
            return FULL
        bucket = next_bucket(m, max(0, bucket - 4))  # one turn of a block brings four agents nearer
    return FOUND if bucket == 0 else NOT_FOUND


@compiled
def _enter(m):
    """Enter the joint position `after` by the sum of its distances; False if the table is full."""
    slot, seen = slot_of(m, pack_states(m.after, m.agents))
    ahead = 0
    for agent in range(m.agents):
        ahead += m.moves_to_goal[agent, m.after[agent]]
    return slot != FULL and (seen or push(m, slot, ahead))


@compiled
def _agent_on(m, members, cell):
    """The agent of the mask `members` that was on a cell before the move; -1 if there is none."""
    for agent in range(m.agents):
        if (members >> agent) & 1 and m.before[agent] == cell:
            return agent
    return -1


@compiled
def _enter_moves(m, members):
    """Enter what follows the joint position `before`; False if the table is full."""
    for agent in range(m.agents):
        m.after[agent] = m.before[agent]
    for agent in range(m.agents):
        if (members >> agent) & 1:
            here = m.before[agent]
            for way in range(m.degree[here]):
                m.after[agent] = m.near[here, way]
                if _agent_on(m, members, m.after[agent]) < 0 and not _enter(m):
                    return False
            m.after[agent] = here
            if not _enter_turns(m, members, here):
                return False
    return True


@compiled
def _enter_turns(m, members, corner):
    """Enter both turns of the 2x2 block right of and below `corner`, if four agents fill it."""
    below = corner + int(m.stride)
    ring = corner, corner + 1, below + 1, below
    for cell in ring:
        if cell >= CELLS or _agent_on(m, members, cell) < 0:
            return True
    fits = True
    for turn in (1, 3, 4):  # 4 leaves `after` as it was
        for index in range(4):
            m.after[_agent_on(m, members, ring[index])] = ring[(index + turn) % 4]
        fits = fits and (turn == 4 or _enter(m))
    return fits
