"""Increasing-cost-tree search (Sharon et al. 2013) on bitboards, compiled.

Each agent is allowed a cost: its distance plus an excess. Vectors of excesses are tried in the order of
their sum, so the first one whose diagrams hold a conflict-free joint plan is optimal in the sum of costs. A
vector is settled by prioritised planning inside the diagrams where that succeeds (a plan found is a proof),
by tables of what every two agents can still finish, and where those leave it open by a sweep over all joint
positions of the agents that meet, step by step: of three agents first, then of more. What three or four
agents cannot finish rules out later vectors.
"""

from envgen.mapf.compiled import compiled
from envgen.mapf.solver.diagrams import allowed_cost, build_diagram, measure, plan_in_turn
from envgen.mapf.solver.memory import FOUND, GIVEN_UP, LEVELS, MOST_WAITS, NOT_FOUND, OPEN, VERDICTS
from envgen.mapf.solver.pairs import fill_pair, pair_can_finish
from envgen.mapf.solver.sweep import sweep


@compiled
def begin(m):
    """Measure the group and try the shortest paths.

    FOUND with a plan of excess 0 in `plan`, NOT_FOUND if some goal cannot be reached, else OPEN.
    """
    m.stamp += 1
    m.verdict_count = 0
    for agent in range(m.agents):
        m.excess[agent] = 0
        if measure(m, agent) < 0:
            return NOT_FOUND
        build_diagram(m, agent)
    if not _plan_in_some_order(m, 0):
        return OPEN
    _keep_plan(m)
    return FOUND


@compiled
def deepen(m, least, most):
    """Search the excesses `least` to `most`.

    Returns (FOUND + excess, fewest waits) with the plan in `plan`, (OPEN, 0) if there is none, or
    (GIVEN_UP, 0).
    """
    for excess in range(least, most + 1):
        result = _search(m, excess)
        if result == GIVEN_UP:
            return GIVEN_UP, 0
        if result >= FOUND:
            return FOUND + excess, result - FOUND
    return OPEN, 0


@compiled
def _search(m, total):
    """Try the vectors of excesses that sum to `total`.

    FOUND + fewest waits with the plan in `plan`, NOT_FOUND, or GIVEN_UP at the node limit.
    """
    fewest = total + 1  # than which no plan has more: a wait costs an excess of 1
    excess, left, last = m.excess, m.left, m.agents - 1
    excess[0], left[0] = -1, total
    agent = 0
    while agent >= 0:
        if agent == last:
            excess[agent] = left[agent] if excess[agent] < 0 else LEVELS
        else:
            excess[agent] += 1
        if excess[agent] > left[agent] or excess[agent] >= LEVELS:
            agent -= 1
            continue
        possible = build_diagram(m, agent)
        for other in range(agent):
            possible = possible and pair_can_finish(m, other, agent)
        if not possible or _ruled_out(m, agent):
            continue
        if agent < last:
            left[agent + 1] = left[agent] - excess[agent]
            agent += 1
            excess[agent] = -1
        else:
            result = _settle(m, fewest - 1)
            if result == GIVEN_UP:
                return GIVEN_UP
            if result >= FOUND:
                _keep_plan(m)
                fewest = result - FOUND
                if fewest == total & 1:  # as the board is bipartite
                    return result
    return FOUND + fewest if fewest <= total else NOT_FOUND


@compiled
def _settle(m, most):
    """Plan inside the vector in `excess`, of which every pair can finish: FOUND + fewest waits.

    The plan is in `paths`. NOT_FOUND if every plan has more than `most` waits, or GIVEN_UP.
    """
    least = waits = 0
    for agent in range(m.agents):
        least += m.excess[agent] & 1
    if least > most:
        return NOT_FOUND
    if _plan_in_some_order(m, least):
        return FOUND + least
    _form_groups(m)
    result = _sets_finish(m)
    if result != FOUND:
        return result
    for agent in range(m.agents):
        if m.group[agent] & ((1 << agent) - 1):
            continue  # the group of an agent before
        result = sweep(m, _pick(m, m.group[agent]), most - waits)
        if result < FOUND:
            return result
        waits += result - FOUND
    return FOUND + waits


@compiled
def _plan_in_some_order(m, waits):
    """Plan all agents in turn, in some order, with at most `waits` waits; True with the plan in `paths`."""
    planned, m.horizon = False, 0
    for agent in range(m.agents):
        m.horizon = max(m.horizon, allowed_cost(m, agent))
    for order in range(min(m.agents, 3)):
        planned = planned or (plan_in_turn(m, order) and _waits(m) <= waits)
    return planned


@compiled
def _form_groups(m):
    """Fill `group`, the masks of agents whose diagrams meet, also through others, and their tables."""
    for agent in range(m.agents):
        m.group[agent] = 1 << agent
    for j in range(1, m.agents):
        for i in range(j):
            if fill_pair(m, i, j):
                joined = m.group[i] | m.group[j]
                for agent in range(m.agents):
                    if (joined >> agent) & 1:
                        m.group[agent] = joined


@compiled
def _sets_finish(m):
    """Whether every three and every four agents of a group can finish, taken alone."""
    for size in range(3, m.agents):
        for mask in range(1 << m.agents):
            if _pick(m, mask) != size or mask & ~m.group[m.members[0]]:
                continue
            verdict = _verdict_on(m, mask)
            if verdict == OPEN:
                verdict = min(sweep(m, size, MOST_WAITS), FOUND)
                if verdict != GIVEN_UP and m.verdict_count < VERDICTS:
                    row = m.verdicts[m.verdict_count]
                    row[0], row[1], m.verdict_count = mask, verdict, m.verdict_count + 1
                    for agent in range(m.agents):
                        row[2 + agent] = m.excess[agent]
            if verdict != FOUND:
                return verdict
    return FOUND


@compiled
def _verdict_on(m, mask):
    """The verdict on the agents of a mask that an earlier vector implies; OPEN without one."""
    for entry in range(m.verdict_count):
        row = m.verdicts[entry]
        if row[0] == mask and _implies(m, row):
            return row[1]
    return OPEN


@compiled
def _ruled_out(m, agent):
    """Whether three agents or more, of which `agent` is the last, are known not to finish."""
    for entry in range(m.verdict_count):
        row = m.verdicts[entry]
        if row[1] == NOT_FOUND and row[0] >> agent == 1 and _implies(m, row):
            return True
    return False


@compiled
def _implies(m, row):
    """Whether a verdict holds for the vector at hand: more excess never hurts."""
    for agent in range(m.agents):
        more = m.excess[agent] - row[2 + agent]
        if (row[0] >> agent) & 1 and more != 0 and (more > 0) != (row[1] == FOUND):
            return False
    return True


@compiled
def _pick(m, mask):
    """Make the agents in a mask the members; how many they are."""
    count = 0
    for agent in range(m.agents):
        if (mask >> agent) & 1:
            m.members[count] = agent
            count += 1
    return count


@compiled
def _waits(m):
    """Waits before the last arrivals of the plan in `paths`."""
    total = 0
    for agent in range(m.agents):
        path, arrival = m.paths[agent], m.horizon
        while arrival > 0 and path[arrival - 1] == path[arrival]:
            arrival -= 1
        for step in range(arrival):
            total += path[step] == path[step + 1]
    return total


@compiled
def _keep_plan(m):
    """Store the plan in `paths` as the plan of the group."""
    m.plan_steps = m.horizon
    for agent in range(m.agents):
        for step in range(m.horizon + 1):
            m.plan[agent, step] = m.paths[agent, step]
