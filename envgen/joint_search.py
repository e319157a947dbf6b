"""Search over joint positions, complete and compiled: it finds the optimum of any board or proves that there is none.

A* on the excess over the sum of distances, ties by waits, with positions expanded partially (Goldenberg et al. 2014).
The bound is a pattern database: what every two agents, and every agent past those that have
arrived for good, must exceed their distances by. Used where the cost tree gives up, and as its independent check.
"""

from typing import NamedTuple

import numpy as np

from envgen.bitboard import CELLS, NONE, holds, lowest, neighbours, word_pair
from envgen.compiled import compiled
from envgen.cost_tree import AGENTS, FOUND, GIVEN_UP, NOT_FOUND, PAIRS, pair_index

LONGEST_PLAN = 512
"""Steps that a plan may have."""
NEVER = 30_000
"""Excess of what cannot be finished."""
EXCESSES, WAITS = 256, 256
"""Bounds of the excess and of the waits of a plan."""
FULL, TOO_LONG = -2, -3
SHORT_WHILE = 300
"""Joint positions of the first attempt to prove a group solvable."""

GENERATION, COUNT, FREE, NODES, ENTRIES, PLAN_LENGTH, USED, OPENED, HIGHEST = range(9)
_KEY_BITS = np.uint64(8 * AGENTS)


class JointSpace(NamedTuple):
    """Working memory of one group of agents that can reach each other; cells are numbered 0.. among the free ones."""

    counters: np.ndarray
    cell: np.ndarray
    """Bit index of a number."""
    number: np.ndarray
    """Number of a bit index, -1 if not free."""
    degree: np.ndarray
    near: np.ndarray
    start: np.ndarray
    goal: np.ndarray
    distance: np.ndarray
    """[agent, cell]: moves to the goal."""
    ahead: np.ndarray
    """The same, but 2 on the goal itself: an agent that is there and has not arrived for good must leave and come back."""
    options: np.ndarray
    """[agent, cell, rank, 3]: target, whether it arrives for good, excess; by excess, moves before waits."""
    option_count: np.ndarray
    alone: np.ndarray
    """[agents that have arrived, agent, cell]: excess of an agent that they block."""
    alone_known: np.ndarray
    pairs: np.ndarray
    """[pair, cell, cell]: excess of two agents taken alone."""
    queue: np.ndarray
    position: np.ndarray
    """[before or after, agent]: the joint move at hand."""
    choice: np.ndarray
    spent: np.ndarray
    waited: np.ndarray
    arriving: np.ndarray
    keys: np.ndarray
    """The table of joint positions seen, by hash; the three below belong to its slots."""
    costs: np.ndarray
    parents: np.ndarray
    waiting: np.ndarray
    """1 while the newest entry of a slot in the open list has not been expanded at its excess."""
    node_slots: np.ndarray
    node_links: np.ndarray
    heads: np.ndarray
    past: np.ndarray
    plan: np.ndarray
    """[step, agent]: the plan found, cells by number, up to PLAN_LENGTH."""
    group_starts: np.ndarray
    group_goals: np.ndarray
    group_members: np.ndarray
    paths: np.ndarray
    """[agent, step]: bit indices of the plans of all groups."""


def joint_space(entries: int) -> JointSpace:
    """Fresh working memory with a table of `entries` joint positions, a power of two; 36 bytes an entry and 2 MB."""

    def integers(*shape: int) -> np.ndarray:
        return np.zeros(shape, dtype=np.int64)

    def small(*shape: int) -> np.ndarray:
        return np.zeros(shape, dtype=np.int16)

    space = JointSpace(
        counters=integers(9),
        cell=integers(CELLS),
        number=integers(CELLS),
        degree=integers(CELLS),
        near=integers(CELLS, 4),
        start=integers(AGENTS),
        goal=integers(AGENTS),
        distance=integers(AGENTS, CELLS),
        ahead=integers(AGENTS, CELLS),
        options=integers(AGENTS, CELLS, 6, 3),
        option_count=integers(AGENTS, CELLS),
        alone=small(1 << AGENTS, AGENTS, CELLS),
        alone_known=integers(1 << AGENTS),
        pairs=small(PAIRS, CELLS, CELLS),
        queue=integers(CELLS * CELLS),
        position=integers(2, AGENTS),
        choice=integers(AGENTS),
        spent=integers(AGENTS + 1),
        waited=integers(AGENTS + 1),
        arriving=integers(AGENTS + 1),
        keys=np.zeros(entries, dtype=np.uint64),
        costs=np.zeros(entries, dtype=np.int32),
        parents=np.zeros(entries, dtype=np.int32),
        waiting=np.zeros(entries, dtype=np.int32),
        node_slots=np.zeros(2 * entries, dtype=np.int32),
        node_links=np.zeros(2 * entries, dtype=np.int32),
        heads=integers(EXCESSES * WAITS),
        past=integers(CELLS),
        plan=integers(LONGEST_PLAN, AGENTS),
        group_starts=integers(AGENTS),
        group_goals=integers(AGENTS),
        group_members=integers(AGENTS),
        paths=integers(AGENTS, LONGEST_PLAN),
    )
    space.counters[ENTRIES] = entries
    space.heads[:] = -1
    return space


@compiled
def place(space, starts, goals, count, stride, free_low, free_high):
    """Number the free cells that the first goal's component holds, and measure every agent's distances."""
    space.counters[COUNT] = count
    low, high = word_pair(goals[0])
    while True:
        near_low, near_high = neighbours(low, high, stride, free_low, free_high)
        if (near_low & ~low) == NONE and (near_high & ~high) == NONE:
            break
        low |= near_low
        high |= near_high
    space.number[:] = -1
    free = 0
    todo_low, todo_high = low, high
    while (todo_low | todo_high) != NONE:
        cell = lowest(todo_low, todo_high)
        bit_low, bit_high = word_pair(cell)
        todo_low &= ~bit_low
        todo_high &= ~bit_high
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
        space.start[agent] = space.number[starts[agent]]
        space.goal[agent] = space.number[goals[agent]]
        _measure(space, space.goal[agent], 0, space.distance[agent])
        for number in range(free):
            space.ahead[agent, number] = space.distance[agent, number]
        space.ahead[agent, space.goal[agent]] = 2
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
def _list_options(space):
    for agent in range(space.counters[COUNT]):
        goal = space.goal[agent]
        for cell in range(space.counters[FREE]):
            count = 0
            for excess in range(5):
                for way in range(space.degree[cell] + 1):
                    waiting = way == space.degree[cell]
                    target = cell if waiting else space.near[cell, way]
                    for arriving in range(1, -1, -1):
                        if arriving and (waiting or target != goal):
                            continue
                        remaining = 0 if arriving else space.ahead[agent, target]
                        if 1 + remaining - space.ahead[agent, cell] == excess:
                            space.options[agent, cell, count, 0] = target
                            space.options[agent, cell, count, 1] = arriving
                            space.options[agent, cell, count, 2] = excess
                            count += 1
            space.option_count[agent, cell] = count


@compiled
def _know_alone(space, mask):
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
def _fill_pair(space, i, j):
    """Excess of agents i < j from every two cells, none having arrived for good: first where one arrives next, then backwards."""
    free = space.counters[FREE]
    table = space.pairs[pair_index(i, j)]
    _know_alone(space, 1 << i)
    _know_alone(space, 1 << j)
    largest = 0
    for x in range(free):
        for y in range(free):
            least = NEVER
            if x != y and (space.distance[i, x] == 1 or space.distance[j, y] == 1):
                for a in range(space.option_count[i, x]):
                    to_x, in_x = space.options[i, x, a, 0], space.options[i, x, a, 1]
                    for b in range(space.option_count[j, y]):
                        to_y, in_y = space.options[j, y, b, 0], space.options[j, y, b, 1]
                        if not (in_x or in_y) or to_x == to_y or (to_x == y and to_y == x):
                            continue
                        excess = space.options[i, x, a, 2] + space.options[j, y, b, 2]
                        if in_x and not in_y:
                            excess += space.alone[1 << i, j, to_y]
                        elif in_y and not in_x:
                            excess += space.alone[1 << j, i, to_x]
                        least = min(least, excess)
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


@compiled
def _bound(space, positions, arrived):
    """A lower bound of the excess from here: the best of disjoint pairs, and of all pairs shared out evenly."""
    count = space.counters[COUNT]
    _know_alone(space, arrived)
    total, every, active = 0, 0, 0
    first, second = 0, 0
    for agent in range(count):
        if (arrived >> agent) & 1 == 0:
            active += 1
            total += space.alone[arrived, agent, positions[agent]]
    if total >= NEVER:
        return NEVER
    for j in range(1, count):
        if (arrived >> j) & 1:
            continue
        own_j = space.alone[arrived, j, positions[j]]
        for i in range(j):
            if (arrived >> i) & 1:
                continue
            both = space.alone[arrived, i, positions[i]] + own_j
            together = np.int64(space.pairs[pair_index(i, j), positions[i], positions[j]])
            if together >= NEVER:
                return NEVER
            gain = max(0, together - both)
            every += both + gain
            first = max(first, gain)
            if gain == 0:
                continue
            for m in range(1, j):
                if m == i or (arrived >> m) & 1:
                    continue
                for k in range(m):
                    if k == i or (arrived >> k) & 1:
                        continue
                    rest = np.int64(space.pairs[pair_index(k, m), positions[k], positions[m]])
                    rest -= space.alone[arrived, k, positions[k]] + space.alone[arrived, m, positions[m]]
                    second = max(second, gain + max(0, rest))
    bound = total + max(first, second)
    if active > 1:
        bound = max(bound, (every + active - 2) // (active - 1))
    return bound


@compiled
def _slot(space, key):
    """Where `key` is in the table, or the free slot where it belongs."""
    mask = space.counters[ENTRIES] - 1
    slot = np.int64((key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)) & mask
    while space.keys[slot] != key and space.keys[slot] >> _KEY_BITS == np.uint64(space.counters[GENERATION]):
        slot = (slot + 1) & mask
    return slot


@compiled
def _clear(space):
    """Empty the table and the open list."""
    space.heads[: space.counters[HIGHEST] + 1] = -1
    space.counters[HIGHEST] = 0
    space.counters[USED] = space.counters[OPENED] = 0
    space.counters[GENERATION] += 1
    if space.counters[GENERATION] >= 1 << 24:
        space.keys[:] = NONE
        space.counters[GENERATION] = 1


@compiled
def _key(space, positions, arrived):
    key = np.uint64(space.counters[GENERATION])
    for agent in range(AGENTS):
        number = positions[agent] if agent < space.counters[COUNT] else 0
        key = (key << np.uint64(7)) | np.uint64(number)
    return (key << np.uint64(AGENTS)) | np.uint64(arrived)


@compiled
def _read_key(space, key, positions):
    """Positions of a key; the mask of the agents that have arrived."""
    arrived = np.int64(key & np.uint64((1 << AGENTS) - 1))
    key >>= np.uint64(AGENTS)
    for agent in range(AGENTS - 1, -1, -1):
        positions[agent] = np.int64(key & np.uint64(127))
        key >>= np.uint64(7)
    return arrived


@compiled
def _open(space, slot, bucket):
    """Put a slot into the open list; False if the list is full."""
    node = space.counters[OPENED]
    if node == len(space.node_slots):
        return False
    space.counters[HIGHEST] = max(space.counters[HIGHEST], bucket)
    space.node_slots[node] = slot
    space.node_links[node] = space.heads[bucket]
    space.heads[bucket] = node
    space.counters[OPENED] = node + 1
    return True


@compiled
def _reach(space, positions, arrived, cost, bound, parent):
    """Enter a joint position reached at `cost` (excess * WAITS + waits) whose excess will be at least `bound`; a status."""
    key = _key(space, positions, arrived)
    slot = _slot(space, key)
    if space.keys[slot] == key:
        if space.costs[slot] <= cost:
            return FOUND
    else:
        space.counters[USED] += 1
        if space.counters[USED] > space.counters[ENTRIES] * 7 // 10:
            return FULL
        space.keys[slot] = key
    if bound >= EXCESSES:
        return TOO_LONG
    space.costs[slot] = cost
    space.parents[slot] = parent
    space.waiting[slot] = bound
    return FOUND if _open(space, slot, bound * WAITS + cost % WAITS) else FULL


@compiled
def _expand(space, slot, level, reach):
    """Enter all joint positions that follow `slot` with an excess of at most `reach` in the end; `level` is the least excess now."""
    count = space.counters[COUNT]
    before, after = space.position[0], space.position[1]
    arrived = _read_key(space, space.keys[slot], before)
    cost = np.int64(space.costs[slot])
    budget = reach - cost // WAITS
    agent = 0
    space.choice[0] = 0
    space.spent[0] = space.waited[0] = 0
    space.arriving[0] = arrived
    while agent >= 0:
        here = before[agent]
        rank = space.choice[agent]
        space.choice[agent] = rank + 1
        resting = (arrived >> agent) & 1
        options = 1 if resting else space.option_count[agent, here]
        target, arrives, excess = here, 0, 0
        if rank < options and not resting:
            target = space.options[agent, here, rank, 0]
            arrives = space.options[agent, here, rank, 1]
            excess = space.options[agent, here, rank, 2]
        spent = space.spent[agent] + excess
        if rank >= options or spent > budget:
            agent -= 1
            continue
        mask = space.arriving[agent] | (arrives << agent)
        clear = True
        for other in range(agent):
            there = after[other]
            if there == target or (there == here and before[other] == target):
                clear = False
                break
            both_under_way = (mask >> other) & 1 == 0 and not arrives and not resting
            if both_under_way and spent + space.pairs[pair_index(other, agent), there, target] > budget:
                clear = False
                break
        if not clear:
            continue
        after[agent] = target
        space.spent[agent + 1] = spent
        space.waited[agent + 1] = space.waited[agent] + (1 if target == here and not resting else 0)
        space.arriving[agent + 1] = mask
        if agent < count - 1:
            agent += 1
            space.choice[agent] = 0
            continue
        space.counters[NODES] += 1
        bound = _bound(space, after, mask)
        if spent + bound <= budget:
            status = _reach(space, after, mask, cost + spent * WAITS + space.waited[count], max(level, cost // WAITS + spent + bound), slot)
            if status != FOUND:
                return status
    return FOUND


@compiled
def _best_first(space):
    """A* over joint positions, least excess first, then fewest waits; (FOUND + excess, waits) with `plan` filled, or a status.

    A position is expanded once for every excess that its successors may add, as in enhanced partial expansion A*.
    """
    count = space.counters[COUNT]
    everyone = (1 << count) - 1
    _clear(space)
    space.counters[NODES] = 0
    home = 0
    for agent in range(count):
        if space.start[agent] == space.goal[agent]:
            home |= 1 << agent
    arrived = home
    while True:
        leaving = 0
        for agent in range(count):
            leaving += ((home ^ arrived) >> agent) & 1
        bound = _bound(space, space.start, arrived)
        if bound < NEVER:
            status = _reach(space, space.start, arrived, 2 * leaving * WAITS, 2 * leaving + bound, -1)
            if status != FOUND:
                return status, 0
        if arrived == 0:
            break
        arrived = (arrived - 1) & home
    bucket = 0
    while bucket <= space.counters[HIGHEST]:
        node = space.heads[bucket]
        if node < 0:
            bucket += 1
            continue
        space.heads[bucket] = space.node_links[node]
        slot = space.node_slots[node]
        level = bucket // WAITS
        if space.waiting[slot] != level or space.costs[slot] % WAITS != bucket % WAITS:
            continue  # entered again at a lower cost since
        if np.int64(space.keys[slot] & np.uint64((1 << AGENTS) - 1)) == everyone:
            waits = _trace(space, slot)
            return (FOUND + level if waits >= 0 else waits), waits
        reach = level + level // 2
        space.waiting[slot] = reach + 1
        status = _expand(space, slot, level, reach)
        if status == FOUND and reach + 1 < EXCESSES and not _open(space, slot, bucket + (reach + 1 - level) * WAITS):
            status = FULL
        if status != FOUND:
            return status, 0
    return TOO_LONG, 0


@compiled
def _trace(space, slot):
    """Write the plan that leads to `slot`; its waits, or TOO_LONG."""
    length = -1
    at = slot
    while at >= 0:
        length += 1
        at = space.parents[at]
    if length >= LONGEST_PLAN:
        return TOO_LONG
    space.counters[PLAN_LENGTH] = length
    at = slot
    for step in range(length, -1, -1):
        _read_key(space, space.keys[at], space.plan[step])
        at = space.parents[at]
    return np.int64(space.costs[slot]) % WAITS


@compiled
def _push(space, positions):
    """Put a joint position into the open list of `_solvable`; a status."""
    key = _key(space, positions, 0)
    slot = _slot(space, key)
    if space.keys[slot] == key:
        return FOUND
    space.counters[USED] += 1
    if space.counters[USED] > space.counters[ENTRIES] * 7 // 10:
        return FULL
    space.keys[slot] = key
    ahead = 0
    for rank in range(space.counters[COUNT]):
        ahead += space.distance[rank, positions[rank]]
    return FOUND if _open(space, slot, ahead) else FULL


@compiled
def solvable(space, members, steps, stride):
    """Whether the agents in the mask `members` can reach their goals: greedy best-first over their positions.

    One agent moves at a time, or four turn round a block: agents that move in one step form rows behind an empty cell,
    which can move one after another, or a ring, and with five agents the only ring on a grid is a block of 2x2 cells.
    The agents left out are at their goals and nobody's obstacle. NOT_FOUND is a proof; GIVEN_UP after `steps`
    positions, FULL if the table is too small.
    """
    _clear(space)
    count = space.counters[COUNT]
    before, after = space.position[0], space.position[1]
    for agent in range(count):
        before[agent] = space.start[agent] if (members >> agent) & 1 else space.goal[agent]
    _push(space, before)
    low = 0
    while True:
        low = max(0, low - 4)  # one turn of a block brings four agents nearer
        while low <= space.counters[HIGHEST] and space.heads[low] < 0:
            low += 1
        if low == 0:
            return FOUND
        if low > space.counters[HIGHEST]:
            return NOT_FOUND
        steps -= 1
        if steps < 0:
            return GIVEN_UP
        node = space.heads[low]
        space.heads[low] = space.node_links[node]
        _read_key(space, space.keys[space.node_slots[node]], before)
        taken_low, taken_high = NONE, NONE
        for agent in range(count):
            after[agent] = before[agent]
            if (members >> agent) & 1:
                bit_low, bit_high = word_pair(space.cell[before[agent]])
                taken_low |= bit_low
                taken_high |= bit_high
        for agent in range(count):
            if (members >> agent) & 1 == 0:
                continue
            here = before[agent]
            for way in range(space.degree[here]):
                there = space.near[here, way]
                if not holds(taken_low, taken_high, space.cell[there]):
                    after[agent] = there
                    if _push(space, after) != FOUND:
                        return FULL
            after[agent] = here
        for agent in range(count):
            corner = space.cell[before[agent]]
            across, below = corner + 1, corner + np.int64(stride)
            if (members >> agent) & 1 == 0 or below + 1 >= CELLS:
                continue
            if not (holds(taken_low, taken_high, across) and holds(taken_low, taken_high, below) and holds(taken_low, taken_high, below + 1)):
                continue
            for turn in range(2):
                for other in range(count):
                    after[other] = before[other]
                    cell = space.cell[before[other]]
                    if (members >> other) & 1 == 0:
                        continue
                    if cell == corner:
                        after[other] = space.number[below if turn else across]
                    elif cell == across:
                        after[other] = space.number[corner if turn else below + 1]
                    elif cell == below + 1:
                        after[other] = space.number[across if turn else below]
                    elif cell == below:
                        after[other] = space.number[below + 1 if turn else corner]
                if _push(space, after) != FOUND:
                    return FULL
            for other in range(count):
                after[other] = before[other]


@compiled
def prove_solvable(space, starts, goals, count, steps, stride, free_low, free_high):
    """Whether one group of agents can reach their goals at all: FOUND, NOT_FOUND, GIVEN_UP after `steps` positions, or FULL.

    All agents for a short while first; where that leaves it open, every two, every three and so on, since a few
    agents that cannot pass each other are found far sooner without the others.
    """
    place(space, starts, goals, count, stride, free_low, free_high)
    everyone = (1 << count) - 1
    result = solvable(space, everyone, SHORT_WHILE, stride)
    if result != GIVEN_UP:
        return result
    for size in range(2, count + 1):
        for members in range(everyone + 1):
            chosen = 0
            for agent in range(count):
                chosen += (members >> agent) & 1
            if chosen == size:
                result = solvable(space, members, steps, stride)
                if result in (NOT_FOUND, FULL):
                    return result
    return result


@compiled
def solve_jointly(space, starts, goals, count, stride, free_low, free_high):
    """The optimum of one solvable group: (FOUND + excess, fewest waits) with the plan in `plan`, up to PLAN_LENGTH.

    `starts` and `goals` are bit indices in one component of the free cells. (FULL, 0) asks for a larger table,
    (TOO_LONG, 0) says that a plan would pass LONGEST_PLAN steps or an excess of EXCESSES.
    """
    place(space, starts, goals, count, stride, free_low, free_high)
    _list_options(space)
    for j in range(1, count):
        for i in range(j):
            _fill_pair(space, i, j)
    return _best_first(space)
