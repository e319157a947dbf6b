"""Increasing-cost-tree search (Sharon et al. 2013) on bitboards, compiled.

Each agent is allowed a cost: its distance plus an excess. Vectors of excesses are tried in the order of
their sum, so the first one whose diagrams hold a conflict-free joint plan is optimal in the sum of costs. A
vector is settled by prioritised planning inside the diagrams where that succeeds (a plan found is a proof),
by tables of what every two agents can still finish, and where those leave it open by a short depth-first
search of their product, then by a sweep over all its positions step by step.
"""

from envgen.mapf.compiled import compiled
from envgen.mapf.solver.depth_first import search_depth_first
from envgen.mapf.solver.diagrams import build_diagram, enlist, measure, pair_index, plan_in_turn
from envgen.mapf.solver.memory import (
    AGENTS,
    ANY_WAITS,
    DECIDED,
    FOUND,
    GIVEN_UP,
    LEVELS,
    NOT_FOUND,
    OPEN,
    QUICK,
)
from envgen.mapf.solver.pairs import fill_pair, pair_can_finish
from envgen.mapf.solver.sweep import sweep, walk_back


@compiled
def begin(m):
    """Measure the group and try the shortest paths.

    FOUND with a plan of excess 0 in `plan`, NOT_FOUND if some goal cannot be reached, else OPEN.
    """
    m.stamp += 1
    m.decided_count = m.strict = 0
    for agent in range(m.agents):
        m.excess[agent] = 0
        if measure(m, agent) < 0:
            return NOT_FOUND
        build_diagram(m, agent)
    if not _plan_in_some_order(m, ANY_WAITS):
        return OPEN
    _keep_plan(m)
    return FOUND


@compiled
def deepen(m, least, most):
    """Search the excesses `least` to `most`.

    Returns (FOUND + excess, fewest waits) with the plan in `plan`, (OPEN, 0) if there is none, or
    (GIVEN_UP, 0).
    """
    # One call of `_search`, since every further one is compiled again.
    excess, waits, allowed = least, 0, ANY_WAITS
    while excess <= most:
        m.strict = 1 if allowed == 0 else 0
        result = _search(m, excess, allowed)
        if result == GIVEN_UP:
            return GIVEN_UP, 0
        if result == FOUND:
            waits = _keep_plan(m)
            if allowed != ANY_WAITS:
                break
            allowed = excess & 1
        elif allowed == ANY_WAITS:
            excess += 1
            continue
        else:
            allowed += 2
        if allowed == waits:
            break
    return (FOUND + excess, waits) if excess <= most else (OPEN, 0)


@compiled
def _search(m, total, waits):
    """Try every vector of excesses that sums to `total`.

    FOUND with `paths` filled at the first that holds a plan with at most `waits` waits. Otherwise NOT_FOUND,
    or GIVEN_UP at the node limit.
    """
    grain = 2 if m.strict else 1
    excess, left, last = m.excess, m.left, m.agents - 1
    excess[0], left[0] = -grain, total
    agent = 0
    while agent >= 0:
        if agent == last:
            excess[agent] = left[agent] if excess[agent] < 0 else LEVELS
        else:
            excess[agent] += grain
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
            excess[agent] = -grain
        else:
            result = _settle(m, waits)
            if result != NOT_FOUND:
                return result
    return NOT_FOUND


@compiled
def _settle(m, waits):
    """Decide whether the vector in `excess` holds a plan with at most `waits` waits.

    FOUND with `paths` filled. Every pair of the vector can finish. That less than `waits` by two or more are
    too few must be known.
    """
    spare = waits
    for agent in range(m.agents):
        spare -= m.excess[agent] & 1
    if spare < 0:
        return NOT_FOUND
    if _plan_in_some_order(m, waits):
        return FOUND
    if _form_groups(m) > 2:
        result = _sets_finish(m)
        if result != FOUND:
            return result
    for agent in range(m.agents):
        if m.group[agent] & ((1 << agent) - 1):
            continue  # the group of an agent before
        count, least = _pick(m, m.group[agent]), 0
        for rank in range(count):
            least += m.excess[m.members[rank]] & 1
        spent = waits if count == m.agents or waits == ANY_WAITS else least
        result = _plan_members(m, count, spent)
        while result == NOT_FOUND and spent + 2 - least <= spare:
            spent += 2
            result = _plan_members(m, count, spent)
        if result != FOUND:
            return result
        spare -= spent - least
    return FOUND


@compiled
def _plan_in_some_order(m, waits):
    """Plan all agents in turn, in some order, with at most `waits` waits; True with the plan in `paths`."""
    enlist(m)
    for order in range(min(m.agents, 3)):
        if plan_in_turn(m, m.agents, order) and (waits == ANY_WAITS or _waits(m) <= waits):
            return True
    return False


@compiled
def _form_groups(m):
    """Fill `group`, the mask of the agents whose diagrams meet, directly or through others, and their tables.

    Returns the size of the largest group.
    """
    for agent in range(m.agents):
        m.group[agent] = 1 << agent
    for j in range(1, m.agents):
        for i in range(j):
            if fill_pair(m, i, j):
                joined = m.group[i] | m.group[j]
                for agent in range(m.agents):
                    if (joined >> agent) & 1:
                        m.group[agent] = joined
    largest = 0
    for agent in range(m.agents):
        largest = max(largest, _pick(m, m.group[agent]))
    return largest


@compiled
def _plan_members(m, count, waits):
    """Whether the members have a joint plan with at most `waits` waits; fills `paths`."""
    result = search_depth_first(m, count, waits, 4 * QUICK)
    if result == GIVEN_UP:
        result = sweep(m, count, waits)
        if result == FOUND:
            walk_back(m, count, waits)
    return result


@compiled
def _sets_finish(m):
    """Check all sets of three and four agents that get in each other's way, the small ones first.

    Verdicts are kept for later vectors.
    """
    for size in range(3, m.agents):
        for mask in range(1 << m.agents):
            if _pick(m, mask) != size or not _joined(m, size):
                continue
            verdict = GIVEN_UP
            for entry in range(m.decided_count):
                if verdict == GIVEN_UP and m.decided[entry, 0] == mask and _applies(m, entry):
                    verdict = m.decided[entry, 2]
            if verdict == GIVEN_UP:
                verdict = _members_can_finish(m, size)
                if verdict == GIVEN_UP:
                    return GIVEN_UP
                if m.decided_count < DECIDED:
                    row = m.decided[m.decided_count]
                    row[0], row[1], row[2] = mask, m.strict, verdict
                    for agent in range(m.agents):
                        row[3 + agent] = m.excess[agent]
                    m.decided_count += 1
            if verdict == NOT_FOUND:
                return NOT_FOUND
    return FOUND


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
def _joined(m, count):
    """Whether the diagrams of two members meet, for each member."""
    for rank in range(count):
        meeting = False
        for other in range(count):
            i, j = min(m.members[rank], m.members[other]), max(m.members[rank], m.members[other])
            meeting = meeting or (i != j and m.meets[pair_index(i, j)] > 0)
        if not meeting:
            return False
    return True


@compiled
def _members_can_finish(m, count):
    """Whether the members can finish.

    One after another, by a short depth-first search, and by a sweep where those leave it open.
    """
    for order in range(3):
        if plan_in_turn(m, count, order):
            return FOUND
    verdict = search_depth_first(m, count, ANY_WAITS, QUICK)
    return sweep(m, count, ANY_WAITS) if verdict == GIVEN_UP else verdict


@compiled
def _applies(m, entry):
    """Whether a verdict decides its set in the vector at hand; more excess never hurts unless `strict`."""
    row = m.decided[entry]
    if row[1] != m.strict:
        return False
    for agent in range(AGENTS):
        more = m.excess[agent] - row[3 + agent]
        if (row[0] >> agent) & 1 and more != 0 and (m.strict or (more > 0) != (row[2] == FOUND)):
            return False
    return True


@compiled
def _ruled_out(m, agent):
    """Whether three agents or more, up to and with `agent`, are known not to finish within their excesses."""
    for entry in range(m.decided_count):
        row = m.decided[entry]
        if row[2] == NOT_FOUND and row[0] >> agent == 1 and _applies(m, entry):
            return True
    return False


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
    """Store the plan in `paths` as the plan of the group; return its waits."""
    m.plan_steps = m.horizon
    for agent in range(m.agents):
        for step in range(m.horizon + 1):
            m.plan[agent, step] = m.paths[agent, step]
    return _waits(m)
