"""Increasing-cost-tree search (Sharon et al. 2013) on bitboards, compiled.

Each agent is allowed a cost: its distance plus an excess. The multi-value decision diagram (MDD) of that cost
holds, per step, the cells on some path that is at its goal from that cost on. Vectors of excesses are tried
in the order of their sum, so the first one whose MDDs hold a conflict-free joint plan is optimal in the sum
of costs. A vector is settled by prioritised planning inside the MDDs where that succeeds (a plan found is a
proof), by tables of what every two agents can still finish, and where those leave it open by a short
depth-first search of their product, then by a sweep over all its positions step by step.
"""

from envgen.mapf.compiled import compiled
from envgen.mapf.solver.diagrams import (
    AGENTS,
    ANY_WAITS,
    BEST_HORIZON,
    DECIDED,
    FOUND,
    GIVEN_UP,
    HORIZON,
    LEVELS,
    LONGEST,
    NODES,
    NOT_FOUND,
    OPEN,
    SETS,
    STAMP,
    build_mdd,
    enlist,
    measure,
    pair_index,
    prioritised,
)
from envgen.mapf.solver.pairs import last_meeting_step, pair_can_finish, ready_table
from envgen.mapf.solver.plan_sets import members_can_finish, plan_members


@compiled
def _known(space, mask, strict):
    """What earlier vectors say of the agents in `mask`: FOUND or NOT_FOUND, else GIVEN_UP."""
    for entry in range(space.counters[SETS]):
        row = space.decided[entry]
        if row[0] != mask or row[1] != strict:
            continue
        fits = True
        for agent in range(AGENTS):
            differs = (mask >> agent) & 1 and row[3 + agent] != space.excess[agent]
            if differs and (strict or (row[3 + agent] > space.excess[agent]) == (row[2] == FOUND)):
                fits = False
                break
        if fits:
            return row[2]
    return GIVEN_UP


@compiled
def _ruled_out(space, agent, strict):
    """Whether three agents or more, up to and with `agent`, are known not to finish within their excesses."""
    for entry in range(space.counters[SETS]):
        row = space.decided[entry]
        if row[2] != NOT_FOUND or row[1] != strict or row[0] >> agent != 1:
            continue
        fits = True
        for other in range(agent + 1):
            if (row[0] >> other) & 1 and (
                space.excess[other] > row[3 + other] or (strict and space.excess[other] < row[3 + other])
            ):
                fits = False
                break
        if fits:
            return True
    return False


@compiled
def _sets_finish(space, agents, strict, stride, free_low, free_high):
    """Check all sets of three and four agents that get in each other's way.

    Verdicts are kept for later vectors.
    """
    for size in range(3, agents):
        for mask in range(1 << agents):
            members = 0
            for agent in range(agents):
                members += (mask >> agent) & 1
            if members != size:
                continue
            count, joined = 0, True
            for agent in range(agents):
                if (mask >> agent) & 1:
                    space.members[count] = agent
                    count += 1
            for rank in range(count):
                agent, friends = space.members[rank], 0
                for other in range(count):
                    peer = space.members[other]
                    friends += peer != agent and space.meets[pair_index(min(agent, peer), max(agent, peer))]
                joined = joined and friends > 0
            if not joined:
                continue
            verdict = _known(space, mask, strict)
            if verdict == GIVEN_UP:
                verdict = members_can_finish(space, count, strict, stride, free_low, free_high)
                if verdict == GIVEN_UP:
                    return GIVEN_UP
                if space.counters[SETS] < DECIDED:
                    row = space.decided[space.counters[SETS]]
                    row[0], row[1], row[2] = mask, strict, verdict
                    for agent in range(agents):
                        row[3 + agent] = space.excess[agent]
                    space.counters[SETS] += 1
            if verdict == NOT_FOUND:
                return NOT_FOUND
    return FOUND


@compiled
def _form_groups(space, agents, strict, stride, free_low, free_high):
    """Give agents whose MDDs meet, directly or through others, the same group number and their tables.

    Returns the size of the largest group.
    """
    for agent in range(agents):
        space.group[agent] = agent
    for j in range(1, agents):
        for i in range(j):
            last_meeting = last_meeting_step(space, i, j, strict)
            space.meets[pair_index(i, j)] = last_meeting > 0
            if last_meeting == 0:
                continue
            ready_table(space, i, j, last_meeting, strict, stride, free_low, free_high)
            if space.group[i] != space.group[j]:
                old, new = space.group[j], space.group[i]
                for agent in range(agents):
                    if space.group[agent] == old:
                        space.group[agent] = new
    largest = 0
    for agent in range(agents):
        size = 0
        for other in range(agents):
            size += space.group[other] == agent
        largest = max(largest, size)
    return largest


@compiled
def _gather(space, agents, group):
    count = 0
    for agent in range(agents):
        if space.group[agent] == group:
            space.members[count] = agent
            count += 1
    return count


@compiled
def _waits(space, agents):
    """Waits before the last arrivals of the plan in `paths`."""
    total = 0
    for agent in range(agents):
        path = space.paths[agent]
        arrival = space.counters[HORIZON]
        while arrival > 0 and path[arrival - 1] == path[arrival]:
            arrival -= 1
        for step in range(arrival):
            total += path[step] == path[step + 1]
    return total


@compiled
def _settle(space, agents, waits, strict, stride, free_low, free_high):
    """Decide whether the vector in `excess` holds a plan with at most `waits` waits.

    FOUND with `paths` filled. Every pair of the vector can finish. That less than `waits` by two or more are
    too few must be known.
    """
    spare = waits
    for agent in range(agents):
        spare -= space.excess[agent] & 1
    if spare < 0:
        return NOT_FOUND
    enlist(space, agents)
    for order in range(min(agents, 3)):
        if prioritised(space, agents, order, strict, stride, free_low, free_high) and (
            waits == ANY_WAITS or _waits(space, agents) <= waits
        ):
            return FOUND
    if _form_groups(space, agents, strict, stride, free_low, free_high) > 2:
        result = _sets_finish(space, agents, strict, stride, free_low, free_high)
        if result != FOUND:
            return result
    for group in range(agents):
        count, least = _gather(space, agents, group), 0
        if count == 0:
            continue
        for rank in range(count):
            least += space.excess[space.members[rank]] & 1
        spent = waits if count == agents or waits == ANY_WAITS else least
        result = plan_members(space, count, spent, strict, stride, free_low, free_high)
        while result == NOT_FOUND and spent + 2 - least <= spare:
            spent += 2
            result = plan_members(space, count, spent, strict, stride, free_low, free_high)
        if result != FOUND:
            return result
        spare -= spent - least
    return FOUND


@compiled
def keep(space, agents):
    """Remember the plan in `paths`."""
    space.counters[BEST_HORIZON] = space.counters[HORIZON]
    for agent in range(agents):
        for step in range(space.counters[HORIZON] + 1):
            space.best[agent, step] = space.paths[agent, step]


@compiled
def search(space, agents, total, waits, strict, stride, free_low, free_high):
    """Try every vector of excesses that sums to `total`.

    FOUND with `paths` filled at the first that holds a plan with at most `waits` waits. Otherwise NOT_FOUND,
    or GIVEN_UP at the node limit.
    """
    grain = 2 if strict else 1
    excess, left = space.excess, space.left
    excess[0] = -grain
    left[0] = total
    agent = 0
    while agent >= 0:
        if agent == agents - 1:
            excess[agent] = left[agent] if excess[agent] < 0 else LEVELS
        else:
            excess[agent] += grain
        if excess[agent] > left[agent] or excess[agent] >= LEVELS:
            agent -= 1
            continue
        if not build_mdd(space, agent, excess[agent], strict, stride, free_low, free_high):
            continue
        possible = True
        for other in range(agent):
            if not pair_can_finish(space, other, agent, strict, stride, free_low, free_high):
                possible = False
                break
        if not possible or _ruled_out(space, agent, strict):
            continue
        if agent < agents - 1:
            left[agent + 1] = left[agent] - excess[agent]
            agent += 1
            excess[agent] = -grain
        else:
            result = _settle(space, agents, waits, strict, stride, free_low, free_high)
            if result != NOT_FOUND:
                return result
    return NOT_FOUND


@compiled
def begin(space, agents, stride, free_low, free_high):
    """Measure the board in `starts` and `goals` and try the shortest paths.

    FOUND with a plan of excess 0 in `best`, NOT_FOUND if some goal cannot be reached, GIVEN_UP if a path is
    too long for this search, else OPEN.
    """
    space.counters[STAMP] += 1
    space.counters[NODES] = 0
    space.counters[SETS] = 0
    long = False
    for agent in range(agents):
        distance = measure(space, agent, stride, free_low, free_high)
        if distance < 0:
            return NOT_FOUND
        long = long or distance + LEVELS >= LONGEST
    if long:
        return GIVEN_UP
    for agent in range(agents):
        space.excess[agent] = 0
        build_mdd(space, agent, 0, 0, stride, free_low, free_high)
    enlist(space, agents)
    for order in range(min(agents, 3)):
        if prioritised(space, agents, order, 0, stride, free_low, free_high):
            keep(space, agents)
            return FOUND
    return OPEN


@compiled
def deepen(space, agents, least, most, stride, free_low, free_high):
    """Search the excesses `least` to `most`.

    Returns (FOUND + excess, fewest waits) with the plan in `best`, (OPEN, 0) if there is none, or
    (GIVEN_UP, 0).
    """
    # One call of `search`, since every further one is compiled again.
    excess, waits, allowed = least, 0, ANY_WAITS
    while excess <= most:
        result = search(space, agents, excess, allowed, 1 if allowed == 0 else 0, stride, free_low, free_high)
        if result == GIVEN_UP:
            return GIVEN_UP, 0
        if result == FOUND:
            keep(space, agents)
            waits = _waits(space, agents)
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
