"""Boards as graphs, and prioritised planning on shortest paths: its plans cost no more than the distances."""

from numba import njit

from envgen.mapf.solver.memory import FAR


@njit
def load(m, size, agents, free, starts, goals):
    """Read a board: link its free cells and measure every agent's distances; False if a goal is cut off."""
    m.size, m.agents = size, agents
    for cell in range(size * size):
        degree = 0
        if free[cell]:
            column = cell % size
            for near, exists in (
                (cell - size, cell >= size),
                (cell - 1, column > 0),
                (cell + 1, column < size - 1),
                (cell + size, cell < size * (size - 1)),
            ):
                if exists and free[near]:
                    m.near[cell, degree] = near
                    degree += 1
        m.degree[cell] = degree
    for agent in range(agents):
        m.start[agent], m.goal[agent] = starts[agent], goals[agent]
        m.distance[agent, :] = FAR
        flood(m.near, m.degree, m.queue, m.distance[agent], goals[agent])
        if m.distance[agent, starts[agent]] == FAR:
            return False
    return True


@njit
def flood(near, degree, queue, distance, source):
    """Fill the distances from `source` over cells whose distance is FAR, breadth first."""
    distance[source] = 0
    queue[0] = source
    head, tail = 0, 1
    while head < tail:
        cell = queue[head]
        head += 1
        for way in range(degree[cell]):
            neighbour = near[cell, way]
            if distance[neighbour] == FAR:
                distance[neighbour] = distance[cell] + 1
                queue[tail] = neighbour
                tail += 1


@njit
def cell_at(m, agent, step):
    """Cell of an agent at a step of its path; it rests after its arrival."""
    return m.paths[agent, min(step, m.arrival[agent])]


@njit
def collide(m, first, second):
    """Whether the paths of two agents meet in a cell or swap cells."""
    for step in range(1, max(m.arrival[first], m.arrival[second]) + 1):
        x, y = cell_at(m, first, step), cell_at(m, second, step)
        if x == y or (x == cell_at(m, second, step - 1) and y == cell_at(m, first, step - 1)):
            return True
    return False


@njit
def plan_around(m, agent, placed):
    """Plan one agent on a shortest path past the paths of the first `placed` agents of `m.placed`.

    False if there is none. A cell lies on shortest paths at one step only, so one breadth-first queue holds
    the cells that can be reached at every step.
    """
    distance, start, goal = m.distance[agent], m.start[agent], m.goal[agent]
    length = distance[start]
    for rank in range(placed):
        for step in range(length + 1, m.arrival[m.placed[rank]] + 1):
            if m.paths[m.placed[rank], step] == goal:
                return False
    m.stamp += 1
    m.stamps[start] = m.stamp
    m.queue[0] = start
    head, tail = 0, 1
    while head < tail:
        cell = m.queue[head]
        head += 1
        ahead = distance[cell] - 1
        for way in range(m.degree[cell]):
            near = m.near[cell, way]
            fresh = distance[near] == ahead and m.stamps[near] != m.stamp
            if fresh and _passable(m, cell, near, length - ahead, placed):
                m.stamps[near] = m.stamp
                m.queue[tail] = near
                tail += 1
    if m.stamps[goal] != m.stamp:
        return False
    m.arrival[agent] = length
    m.paths[agent, length] = cell = goal
    for step in range(length, 0, -1):
        for way in range(m.degree[cell]):
            near = m.near[cell, way]
            behind = distance[near] == distance[cell] + 1 and m.stamps[near] == m.stamp
            if behind and _passable(m, near, cell, step, placed):
                cell = near
                break
        m.paths[agent, step - 1] = cell
    return True


@njit
def _passable(m, cell, target, step, placed):
    """Whether an agent may be on `target` at `step`, coming from `cell`, past the first placed agents."""
    for rank in range(placed):
        other = m.placed[rank]
        there = cell_at(m, other, step)
        if there == target or (there == cell and cell_at(m, other, step - 1) == target):
            return False
    return True
