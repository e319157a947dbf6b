"""Optimal plans of a batch of boards: shortest paths first, then joint plans of agents in each other's way.

Agents are planned in groups (independence detection, Standley 2010): each group by itself at the least cost,
and groups whose plans collide become one. Plans of groups that do not collide are optimal together.
"""

from numba import njit

from envgen.mapf.solver.cost_tree import plan_by_costs
from envgen.mapf.solver.joint import plan_jointly
from envgen.mapf.solver.memory import LEVEL, NEVER, UNDECIDED, UNSOLVABLE
from envgen.mapf.solver.shortest import collide, load, plan_around
from envgen.mapf.solver.solvable import prove_solvable

WORK = 1_000, 40_000
"""Work of the cost tree on a group, before and after a proof that there is a plan."""
LONG_WORK, MANY_POSITIONS = 300_000, 400_000
"""Work of the cost tree on a group with many joint positions, which a search over these takes long for."""
FEW_ENTRIES = 1 << 14
"""Slots of the first search over joint positions; the next has 256 times more."""


@njit(cache=True)
def solve_batch(m, boards, answers, entries):
    """Solve boards; `entries` limits the slots for joint positions of a search."""
    for board in range(len(boards.size)):
        agents, cost = boards.agents[board], UNSOLVABLE
        if load(m, boards.size[board], agents, boards.free[board], boards.starts[board], boards.goals[board]):
            cost = _plan(m, entries)
        answers.status[board] = 1 + cost // LEVEL if cost >= 0 else cost + 1
        answers.waits[board] = max(cost, 0) % LEVEL
        for agent in range(agents if cost >= 0 else 0):
            answers.arrivals[board, agent] = m.arrival[agent]
            for step in range(m.arrival[agent] + 1):
                answers.paths[board, agent, step] = m.paths[agent, step]


@njit
def _plan(m, entries):
    """Plan the agents of the board: the cost of all groups, UNSOLVABLE or UNDECIDED."""
    for agent in range(m.agents):
        m.group[agent], m.group_size[agent], m.group_cost[agent] = agent, 1, 0
    blocked = _plan_singles(m)
    if blocked >= 0:
        for second in range(1, m.agents):
            for first in range(second):
                if not (_pass(m, first, second) or _pass(m, second, first)):
                    _merge(m, first, second)
    while blocked >= 0:
        for group in range(m.agents):
            if m.group[group] == group and m.group_size[group] > 1 and not m.planned[group]:
                m.group_cost[group] = _plan_group(m, group, entries)
                m.planned[group] = True
                if m.group_cost[group] < 0:
                    return m.group_cost[group]
        if _merge_collisions(m):
            continue
        blocked = _plan_singles(m)
        if blocked >= 0:
            placed = 1
            while plan_around(m, m.placed[blocked], placed):
                placed += 1
            _merge(m, m.placed[blocked], m.placed[placed - 1])
    total = 0
    for group in range(m.agents):
        total += m.group_cost[group] if m.group[group] == group else 0
    return total


@njit
def _merge(m, first, second):
    """Make one group, which is still to be planned, of the groups of two agents."""
    group, other = m.group[first], m.group[second]
    if group == other:
        return
    group, other = min(group, other), max(group, other)
    for agent in range(m.agents):
        if m.group[agent] == other:
            m.group[agent] = group
    m.group_size[group] += m.group_size[other]
    m.group_cost[group] += m.group_cost[other]
    m.planned[group] = False


@njit
def _pass(m, first, second):
    """Whether two agents have shortest paths past each other, planned in this order."""
    m.placed[0] = first
    return plan_around(m, first, 0) and plan_around(m, second, 1)


@njit
def _merge_collisions(m):
    """Merge two groups of several agents whose plans collide; False if there are none."""
    for second in range(m.agents):
        for first in range(second):
            group, other = m.group[first], m.group[second]
            several = group != other and min(m.group_size[group], m.group_size[other]) > 1
            if several and collide(m, first, second):
                _merge(m, first, second)
                return True
    return False


@njit
def _plan_singles(m):
    """Plan the agents that are groups by themselves on shortest paths past the groups, in up to three orders.

    -1 if it succeeds, else the index in `m.placed` of an agent that finds no path past those before it.
    """
    fixed = 0
    for agent in range(m.agents):
        if m.group_size[m.group[agent]] > 1:
            m.placed[fixed] = agent
            fixed += 1
    singles, blocked = m.agents - fixed, -1
    for order in range(min(singles, 3)):
        rank = 0
        for agent in range(m.agents):
            if m.group_size[m.group[agent]] == 1:
                turn = singles - 1 - rank if order == 1 else (rank - order // 2) % singles
                m.placed[fixed + turn] = agent
                rank += 1
        blocked = fixed
        while blocked < m.agents and plan_around(m, m.placed[blocked], blocked):
            blocked += 1
        if blocked == m.agents:
            return -1
    return blocked


@njit
def _positions(m):
    """Joint positions of the members, at most."""
    free, positions = 0, 1
    for cell in range(m.size * m.size):
        free += m.degree[cell] > 0
    for rank in range(m.count):
        positions *= free - rank
    return positions


@njit
def _plan_group(m, group, entries):
    """Plan a group: its cost, UNSOLVABLE or UNDECIDED."""
    m.count = 0
    for agent in range(m.agents):
        if m.group[agent] == group:
            m.members[m.count] = agent
            m.count += 1
    least, room = m.group_cost[group], min(FEW_ENTRIES, entries)
    cost = plan_by_costs(m, least, WORK[0])
    if cost >= 0:
        return cost
    if prove_solvable(m, entries) == UNSOLVABLE:
        return UNSOLVABLE
    cost = plan_by_costs(m, least, WORK[1] if _positions(m) < MANY_POSITIONS else LONG_WORK)
    if cost >= 0:
        return cost
    while room <= entries:
        cost = plan_jointly(m, least, room)
        if 0 <= cost < NEVER:
            return cost
        room *= 256
    return UNDECIDED
