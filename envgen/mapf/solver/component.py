"""Agents that share a component of the free cells: distances, moves, least costs of one and of two agents.

Compiled. Cells are numbered 0 to FREE - 1; an agent that has arrived for good is in state FREE, on its goal.
Costs are excesses over distances, so that every move costs 0, 1 or 2: nearer, waiting, farther.
"""

import numpy as np

from envgen.mapf.compiled import compiled
from envgen.mapf.solver.bitboard import CELLS, NONE, lowest, neighbours, word_pair
from envgen.mapf.solver.diagrams import AGENTS, PAIRS, pair_index

NEVER = 30_000
"""Excess of what cannot be finished."""
LONGEST_PLAN = 512
"""Steps that a plan may have."""
EXCESSES, MOST_WAITS = 256, 256
"""Bounds of the excess and of the waits of a plan."""
FULL, TOO_LONG = -2, -3
"""A search has no room for more positions; a plan is beyond the bounds."""
TARGET, EXCESS, WAITS = range(3)

COUNT, FREE, PLAN_LENGTH = range(3)


_INTEGERS = np.int64
COMPONENT = np.dtype(
    [
        ("counters", _INTEGERS, (3,)),
        # bit index of a number, and number of a bit index, -1 if it is not free
        ("cell", _INTEGERS, (CELLS,)),
        ("number", _INTEGERS, (CELLS,)),
        ("degree", _INTEGERS, (CELLS,)),
        ("near", _INTEGERS, (CELLS, 4)),
        ("start", _INTEGERS, (AGENTS,)),
        ("goal", _INTEGERS, (AGENTS,)),
        # [agent, cell]: moves to the goal
        ("distance", _INTEGERS, (AGENTS, CELLS)),
        # [agent, state]: the same, but 2 on the goal itself, where an agent that has not arrived for good
        # must leave and come back
        ("ahead", _INTEGERS, (AGENTS, CELLS + 1)),
        # [agent, state, rank, 3]: target state, excess and waits, by excess
        ("moves", _INTEGERS, (AGENTS, CELLS + 1, 6, 3)),
        ("move_count", _INTEGERS, (AGENTS, CELLS + 1)),
        # [agents that have arrived, agent, cell]: excess of an agent that they block
        ("alone", np.int16, (1 << AGENTS, AGENTS, CELLS)),
        ("alone_known", _INTEGERS, (1 << AGENTS,)),
        # [pair, cell, cell]: excess of two agents taken alone
        ("pairs", np.int16, (PAIRS, CELLS, CELLS)),
        ("queue", _INTEGERS, (CELLS * CELLS,)),
        ("past", _INTEGERS, (CELLS,)),
        # [step, agent]: the plan found, cells by number, up to PLAN_LENGTH
        ("plan", _INTEGERS, (LONGEST_PLAN, AGENTS)),
        # bit indices of the starts and goals of the group, and which agents of the board they are
        ("starts", _INTEGERS, (AGENTS,)),
        ("goals", _INTEGERS, (AGENTS,)),
        ("members", _INTEGERS, (AGENTS,)),
        # [agent of the board, step]: bit indices of the plans of all groups
        ("paths", _INTEGERS, (AGENTS, LONGEST_PLAN)),
    ]
)
"""Working memory, used again for every group; one record, so that a call passes one pointer."""


def component_space() -> np.void:
    """Fresh working memory, about 600 kB."""
    return np.zeros(1, dtype=COMPONENT)[0]


@compiled
def flood(goal, stride, free_low, free_high):
    """The free cells that can be reached from `goal`."""
    low, high = word_pair(goal)
    while True:
        near_low, near_high = neighbours(low, high, stride, free_low, free_high)
        if (near_low & ~low) == NONE and (near_high & ~high) == NONE:
            return low, high
        low |= near_low
        high |= near_high


@compiled
def place(space, count, stride, free_low, free_high):
    """Number the free cells that the first goal's component holds, and measure every agent's distances."""
    space.counters[COUNT] = count
    low, high = flood(space.goals[0], stride, free_low, free_high)
    space.number[:] = -1
    free = 0
    rest_low, rest_high = low, high
    while (rest_low | rest_high) != NONE:
        cell = lowest(rest_low, rest_high)
        bit_low, bit_high = word_pair(cell)
        rest_low &= ~bit_low
        rest_high &= ~bit_high
        space.cell[free] = cell
        space.number[cell] = free
        free += 1
    space.counters[FREE] = free
    for number in range(free):
        bit_low, bit_high = word_pair(space.cell[number])
        near_low, near_high = neighbours(bit_low, bit_high, stride, low, high)
        degree = 0
        while (near_low | near_high) != NONE:
            cell = lowest(near_low, near_high)
            bit_low, bit_high = word_pair(cell)
            near_low &= ~bit_low
            near_high &= ~bit_high
            space.near[number, degree] = space.number[cell]
            degree += 1
        space.degree[number] = degree
    for agent in range(count):
        space.start[agent] = space.number[space.starts[agent]]
        space.goal[agent] = space.number[space.goals[agent]]
        _measure(space, space.goal[agent], 0, space.distance[agent])
        for number in range(free):
            space.ahead[agent, number] = space.distance[agent, number]
        space.ahead[agent, space.goal[agent]] = 2
        space.ahead[agent, free] = 0
    for mask in range(1 << count):
        space.alone_known[mask] = 0


@compiled
def _measure(space, goal, blocked, distance):
    """Distances to `goal` past the goals of the agents in the mask `blocked`."""
    for number in range(space.counters[FREE]):
        distance[number] = NEVER
    for agent in range(space.counters[COUNT]):
        if (blocked >> agent) & 1:
            distance[space.goal[agent]] = -1
    distance[goal] = 0
    space.queue[0] = goal
    head, tail = 0, 1
    while head < tail:
        cell = space.queue[head]
        head += 1
        for way in range(space.degree[cell]):
            near = space.near[cell, way]
            if distance[near] == NEVER:
                distance[near] = distance[cell] + 1
                space.queue[tail] = near
                tail += 1


@compiled
def _list_move(space, agent, state, target, excess, waits):
    rank = space.move_count[agent, state]
    space.move_count[agent, state] = rank + 1
    move = space.moves[agent, state, rank]
    move[TARGET], move[EXCESS], move[WAITS] = target, excess, waits


@compiled
def list_moves(space):
    """Fill `moves`, the cheapest first."""
    free = space.counters[FREE]
    for agent in range(space.counters[COUNT]):
        for state in range(free + 1):
            space.move_count[agent, state] = 0
        _list_move(space, agent, free, free, 0, 0)
        for excess in range(3):
            for state in range(free):
                for rank in range(space.degree[state]):
                    near = space.near[state, rank]
                    if excess == 0 and near == space.goal[agent]:
                        _list_move(space, agent, state, free, 0, 0)
                    if 1 + space.ahead[agent, near] - space.ahead[agent, state] == excess:
                        _list_move(space, agent, state, near, excess, 0)
                if excess == 1:
                    _list_move(space, agent, state, state, 1, 1)


@compiled
def cell_of(space, agent, state):
    """Number of the cell of an agent in a state."""
    return space.goal[agent] if state == space.counters[FREE] else state


@compiled
def arrived_in(space, states):
    """The mask of the agents that have arrived for good."""
    arrived = 0
    for agent in range(space.counters[COUNT]):
        arrived |= (states[agent] == space.counters[FREE]) << agent
    return arrived


@compiled
def everyone_arrived(space, states):
    """Whether all agents have arrived for good."""
    return arrived_in(space, states) == (1 << space.counters[COUNT]) - 1


@compiled
def know_alone(space, mask):
    """Fill `alone` for the agents in `mask` having arrived for good."""
    if space.alone_known[mask]:
        return
    space.alone_known[mask] = 1
    past = space.past
    for agent in range(space.counters[COUNT]):
        if (mask >> agent) & 1:
            continue
        goal = space.goal[agent]
        _measure(space, goal, mask, past)
        way_out = False
        for way in range(space.degree[goal]):
            way_out = way_out or past[space.near[goal, way]] > 0
        for cell in range(space.counters[FREE]):
            if cell == goal:
                space.alone[mask, agent, cell] = 0 if way_out else NEVER
            elif past[cell] < 0 or past[cell] >= NEVER:
                space.alone[mask, agent, cell] = NEVER
            else:
                space.alone[mask, agent, cell] = past[cell] - space.ahead[agent, cell]


@compiled
def _finish_pair(space, i, j, x, y):
    """Excess of agents i < j from cells x and y if one of them arrives for good in the next step."""
    free = space.counters[FREE]
    least = NEVER
    for a in range(space.move_count[i, x]):
        first = space.moves[i, x, a]
        for b in range(space.move_count[j, y]):
            second = space.moves[j, y, b]
            first_in, second_in = first[TARGET] == free, second[TARGET] == free
            to_x = space.goal[i] if first_in else first[TARGET]
            to_y = space.goal[j] if second_in else second[TARGET]
            if not (first_in or second_in) or to_x == to_y or (to_x == y and to_y == x):
                continue
            excess = first[EXCESS] + second[EXCESS]
            if not second_in:
                excess += space.alone[1 << i, j, to_y]
            elif not first_in:
                excess += space.alone[1 << j, i, to_x]
            least = min(least, excess)
    return least


@compiled
def fill_pair(space, i, j):
    """Excess of agents i < j from every two cells, none having arrived for good.

    First where one arrives next, then backwards.
    """
    free = space.counters[FREE]
    table = space.pairs[pair_index(i, j)]
    know_alone(space, 1 << i)
    know_alone(space, 1 << j)
    largest = 0
    for x in range(free):
        for y in range(free):
            table[x, y] = NEVER
            if x != y and (space.distance[i, x] == 1 or space.distance[j, y] == 1):
                least = _finish_pair(space, i, j, x, y)
                table[x, y] = least
                if least < NEVER:
                    largest = max(largest, least)
    level = 0
    while level <= largest:
        tail = 0
        for x in range(free):
            for y in range(free):
                if table[x, y] == level:
                    space.queue[tail] = x * free + y
                    tail += 1
        head = 0
        while head < tail:
            x, y = space.queue[head] // free, space.queue[head] % free
            head += 1
            for a in range(space.degree[x] + 1):
                from_x = x if a == space.degree[x] else space.near[x, a]
                raised_x = 1 + space.ahead[i, x] - space.ahead[i, from_x]
                for b in range(space.degree[y] + 1):
                    from_y = y if b == space.degree[y] else space.near[y, b]
                    if from_x == from_y or (from_x == y and from_y == x):
                        continue
                    excess = level + raised_x + 1 + space.ahead[j, y] - space.ahead[j, from_y]
                    if excess < table[from_x, from_y]:
                        table[from_x, from_y] = excess
                        largest = max(largest, excess)
                        if excess == level:
                            space.queue[tail] = from_x * free + from_y
                            tail += 1
        level += 1
