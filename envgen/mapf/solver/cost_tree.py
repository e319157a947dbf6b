"""Increasing-cost-tree search (Sharon et al. 2013): which costs of the members allow a joint plan.

Vectors of excesses over the distances are tried by their sum, so the first one that holds a plan is optimal.
A vector is dropped where two ranks cannot finish, and settled by planning the ranks in turn or by a sweep
over their joint positions.
"""

from numba import njit

from envgen.mapf.solver.diagrams import allowed_cost, begin, build_diagram, plan_in_turn
from envgen.mapf.solver.memory import ANY_WAITS, EXCESSES, FEW_SLOTS, FULL, LEVEL, MANY_SLOTS, VERDICTS
from envgen.mapf.solver.pairs import fill_pair, pair_can_finish
from envgen.mapf.solver.sweep import sweep
from envgen.mapf.solver.tables import pair_index


@njit
def plan_by_costs(m, least, work):
    """Plan the members at no less than the cost `least`: the least cost, with the paths written.

    FULL if that takes more than so much `work`, or more excess than diagrams have.
    """
    m.work, m.work_limit = 0, work
    for rank in range(m.count):
        m.home[rank] = m.goal[m.members[rank]]
    if not begin(m):
        return FULL
    excess, allowed, waits = least // LEVEL, ANY_WAITS, 0
    while excess < EXCESSES:
        m.strict = allowed == 0
        result = _try_vectors(m, excess, allowed)
        if result == FULL:
            return FULL
        if result:
            waits = _write_paths(m)
            if allowed != ANY_WAITS:
                break
            allowed = max(excess % 2, least % LEVEL if excess == least // LEVEL else 0)
        elif allowed == ANY_WAITS:
            excess += 1
            continue
        else:
            allowed += 2
        if allowed >= waits:
            break
    return excess * LEVEL + waits if excess < EXCESSES else FULL


@njit
def _try_vectors(m, total, waits):
    """Try every vector of excesses with the sum `total`: 1 at the first with a plan, 0 if none, or FULL."""
    grain = 2 if m.strict else 1
    m.excess[0], m.left[0] = -grain, total
    rank, last = 0, m.count - 1
    while rank >= 0:
        if rank == last:
            m.excess[rank] = m.left[rank] if m.excess[rank] < 0 else EXCESSES
        else:
            m.excess[rank] += grain
        if m.excess[rank] > m.left[rank] or m.excess[rank] >= EXCESSES:
            rank -= 1
            continue
        possible = build_diagram(m, rank)
        for other in range(rank):
            possible = possible and pair_can_finish(m, other, rank)
        if m.work > m.work_limit:
            return FULL
        if not possible or _ruled_out(m, rank):
            continue
        if rank < last:
            m.left[rank + 1] = m.left[rank] - m.excess[rank]
            rank += 1
            m.excess[rank] = -grain
            continue
        result = _settle(m, waits)
        if result != 0:
            return result
    return 0


@njit
def _settle(m, waits):
    """Whether the vector holds a plan with at most `waits` waits: 1 with `plans` filled, 0, or FULL."""
    odd, m.horizon = 0, 0
    for rank in range(m.count):
        odd += m.excess[rank] % 2
        m.horizon = max(m.horizon, allowed_cost(m, rank))
    if odd > waits:
        return 0
    for order in range(min(m.count, 3)):
        if plan_in_turn(m, order, m.horizon) and (waits == ANY_WAITS or _waits(m) <= waits):
            return 1
    for second in range(1, m.count):
        for first in range(second):
            m.meets[pair_index(first, second)] = fill_pair(m, first, second)
    for size in range(3, m.count):
        for mask in range(1 << m.count):
            if _joined(m, mask, size):
                verdict = _sweep_some(m, mask)
                if verdict != 1:
                    return verdict
    for rank in range(m.count):
        m.picked[rank] = rank
    return _sweep_picked(m, waits)


@njit
def _sweep_picked(m, waits):
    result = sweep(m, waits, m.horizon, FEW_SLOTS)
    if result == FULL and m.work <= m.work_limit:
        result = sweep(m, waits, m.horizon, MANY_SLOTS)
    return result


@njit
def _joined(m, mask, size):
    """Whether a mask is of so many ranks, and each of them may collide with another."""
    for rank in range(m.count):
        friends = 0
        for other in range(m.count):
            both = other != rank and (mask >> rank) & (mask >> other) & 1
            friends += both and m.meets[pair_index(min(rank, other), max(rank, other))]
        size -= (mask >> rank) & 1
        if (mask >> rank) & 1 and friends == 0:
            return False
    return size == 0


@njit
def _sweep_some(m, mask):
    """Whether the ranks in a mask can finish: 1, 0 or FULL; the verdict is kept for later vectors."""
    for entry in range(m.verdict_count):
        if m.verdicts[entry, 0] == mask and _applies(m, entry):
            return m.verdicts[entry, 2]
    everyone, m.count = m.count, 0
    for rank in range(everyone):
        if (mask >> rank) & 1:
            m.picked[m.count] = rank
            m.count += 1
    result = _sweep_picked(m, ANY_WAITS)
    m.count = everyone
    if result != FULL and m.verdict_count < VERDICTS:
        row = m.verdicts[m.verdict_count]
        row[0], row[1], row[2] = mask, m.strict, result
        row[3:] = m.excess
        m.verdict_count += 1
    return result


@njit
def _applies(m, entry):
    """Whether a verdict decides its ranks in the vector at hand; more excess never hurts unless `strict`."""
    row = m.verdicts[entry]
    if row[1] != m.strict:
        return False
    for rank in range(m.count):
        more = m.excess[rank] - row[3 + rank]
        if (row[0] >> rank) & 1 and more != 0 and (m.strict or (more > 0) != (row[2] == 1)):
            return False
    return True


@njit
def _ruled_out(m, rank):
    """Whether three ranks or more, the last of them `rank`, are known not to finish."""
    for entry in range(m.verdict_count):
        if m.verdicts[entry, 2] == 0 and m.verdicts[entry, 0] >> rank == 1 and _applies(m, entry):
            return True
    return False


@njit
def _arrival(m, rank):
    """The step of a rank's last arrival."""
    step = m.horizon
    while step > 0 and m.plans[rank, step - 1] == m.plans[rank, step]:
        step -= 1
    return step


@njit
def _waits(m):
    """Waits of the plan before the last arrivals."""
    total = 0
    for rank in range(m.count):
        for step in range(_arrival(m, rank)):
            total += m.plans[rank, step] == m.plans[rank, step + 1]
    return total


@njit
def _write_paths(m):
    """Copy the plan of the members to the plan of the board; returns its waits."""
    for rank in range(m.count):
        agent = m.members[rank]
        m.arrival[agent] = _arrival(m, rank)
        for step in range(m.arrival[agent] + 1):
            m.paths[agent, step] = m.plans[rank, step]
    return _waits(m)
