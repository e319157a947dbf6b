"""The free cells that a group of agents shares, as a graph: moves, least costs of one and of two agents.

Compiled. An agent is in the state of its cell, or in ARRIVED when it is on its goal for good. Costs are
excesses over distances, so that every move costs 0, 1 or 2: nearer, waiting, farther.
"""

from envgen.mapf.compiled import compiled
from envgen.mapf.solver.bitboard import flood, is_empty, lowest, neighbours, only, without
from envgen.mapf.solver.diagrams import pair_index
from envgen.mapf.solver.memory import ARRIVED, CELLS, EXCESS, TARGET, WAITS

NEVER = 30_000
"""Excess of what cannot be finished."""


@compiled
def link_cells(m):
    """Link the cells of the component, and measure every agent's distances."""
    rest = flood(m, m.goals[0])
    m.cell_count = 0
    while not is_empty(rest):
        cell = lowest(rest)
        rest = without(rest, only(cell))
        m.cells[m.cell_count] = cell
        m.cell_count += 1
        near, degree = neighbours(m, only(cell)), 0
        while not is_empty(near):
            m.near[cell, degree] = lowest(near)
            near = without(near, only(m.near[cell, degree]))
            degree += 1
        m.degree[cell] = degree
    for agent in range(m.agents):
        _measure(m, m.goals[agent], 0, m.moves_to_goal[agent])


@compiled
def _measure(m, goal, blocked, distance):
    """Distances to `goal` past the goals of the agents in the mask `blocked`, which are -1."""
    for index in range(m.cell_count):
        distance[m.cells[index]] = NEVER
    for agent in range(m.agents):
        if (blocked >> agent) & 1:
            distance[m.goals[agent]] = -1
    distance[goal] = 0
    m.cell_queue[0] = goal
    head, tail = 0, 1
    while head < tail:
        cell = m.cell_queue[head]
        head += 1
        for way in range(m.degree[cell]):
            near = m.near[cell, way]
            if distance[near] == NEVER:
                distance[near] = distance[cell] + 1
                m.cell_queue[tail] = near
                tail += 1


@compiled
def list_moves(m):
    """Fill `moves`, the cheapest first."""
    for agent in range(m.agents):
        goal, ahead = m.goals[agent], m.ahead[agent]
        for index in range(m.cell_count):
            ahead[m.cells[index]] = m.moves_to_goal[agent, m.cells[index]]
        ahead[goal], ahead[ARRIVED] = 2, 0
        m.move_count[agent, ARRIVED] = 0
        _list_move(m, agent, ARRIVED, ARRIVED, 0, 0)
        for index in range(m.cell_count):
            cell = m.cells[index]
            m.move_count[agent, cell] = 0
            for excess in range(3):
                for way in range(m.degree[cell]):
                    near = m.near[cell, way]
                    if excess == 0 and near == goal:
                        _list_move(m, agent, cell, ARRIVED, 0, 0)
                    if 1 + ahead[near] - ahead[cell] == excess:
                        _list_move(m, agent, cell, near, excess, 0)
                if excess == 1:
                    _list_move(m, agent, cell, cell, 1, 1)


@compiled
def _list_move(m, agent, state, target, excess, waits):
    move = m.moves[agent, state, m.move_count[agent, state]]
    m.move_count[agent, state] += 1
    move[TARGET], move[EXCESS], move[WAITS] = target, excess, waits


@compiled
def cell_of(m, agent, state):
    """The cell of an agent in a state."""
    return m.goals[agent] if state == ARRIVED else state


@compiled
def fill_alone(m, mask):
    """Fill `alone`, the excess of each agent past those in `mask`, which have arrived for good."""
    if m.alone_filled[mask]:
        return
    m.alone_filled[mask] = 1
    past = m.past
    for agent in range(m.agents):
        if (mask >> agent) & 1:
            continue
        goal = m.goals[agent]
        _measure(m, goal, mask, past)
        way_out = False
        for way in range(m.degree[goal]):
            way_out = way_out or past[m.near[goal, way]] > 0
        for index in range(m.cell_count):
            cell = m.cells[index]
            reached = way_out if cell == goal else 0 <= past[cell] < NEVER
            detour = 0 if cell == goal else past[cell] - m.ahead[agent, cell]
            m.alone[mask, agent, cell] = detour if reached else NEVER


@compiled
def _finish_pair(m, i, j, x, y):
    """Excess of agents i < j from cells x and y if one of them arrives for good in the next step."""
    least = NEVER
    for a in range(m.move_count[i, x]):
        first = m.moves[i, x, a]
        for b in range(m.move_count[j, y]):
            second = m.moves[j, y, b]
            first_in, second_in = first[TARGET] == ARRIVED, second[TARGET] == ARRIVED
            to_x, to_y = cell_of(m, i, first[TARGET]), cell_of(m, j, second[TARGET])
            if not (first_in or second_in) or to_x == to_y or (to_x == y and to_y == x):
                continue
            excess = first[EXCESS] + second[EXCESS]
            if not second_in:
                excess += m.alone[1 << i, j, to_y]
            elif not first_in:
                excess += m.alone[1 << j, i, to_x]
            least = min(least, excess)
    return least


@compiled
def fill_pairs(m, i, j):
    """Excess of agents i < j from every two cells, none having arrived for good.

    First where one arrives next, then backwards, from the least excess on.
    """
    table, queue = m.pairs[pair_index(i, j)], m.cell_queue
    fill_alone(m, 1 << i)
    fill_alone(m, 1 << j)
    largest = 0
    for a in range(m.cell_count):
        for b in range(m.cell_count):
            x, y = m.cells[a], m.cells[b]
            table[x, y] = NEVER
            if x != y and (m.moves_to_goal[i, x] == 1 or m.moves_to_goal[j, y] == 1):
                least = table[x, y] = _finish_pair(m, i, j, x, y)
                largest = max(largest, least if least < NEVER else 0)
    level = 0
    while level <= largest:
        head = tail = 0
        for a in range(m.cell_count):
            for b in range(m.cell_count):
                if table[m.cells[a], m.cells[b]] == level:
                    queue[tail] = m.cells[a] * CELLS + m.cells[b]
                    tail += 1
        while head < tail:
            x, y = queue[head] // CELLS, queue[head] % CELLS
            head += 1
            for a in range(m.degree[x] + 1):
                from_x = x if a == m.degree[x] else m.near[x, a]
                raised = 1 + m.ahead[i, x] - m.ahead[i, from_x]
                for b in range(m.degree[y] + 1):
                    from_y = y if b == m.degree[y] else m.near[y, b]
                    if from_x == from_y or (from_x == y and from_y == x):
                        continue
                    excess = level + raised + 1 + m.ahead[j, y] - m.ahead[j, from_y]
                    if excess < table[from_x, from_y]:
                        table[from_x, from_y] = excess
                        largest = max(largest, excess)
                        if excess == level:
                            queue[tail] = from_x * CELLS + from_y
                            tail += 1
        level += 1
