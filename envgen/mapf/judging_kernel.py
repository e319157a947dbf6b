"""The compiled passes of `envgen.mapf.judging`, over its arrays; imported when the first plan is judged."""

from envgen.mapf.compiled import compiled
from envgen.mapf.judgement import Finding
from envgen.mapf.problem import MAX_SIZE

# Compiled code takes plain numbers, no members of an enum, and keeps them: numba's cache on disk sees changes
# of this file alone.
NOTHING, WRONG_START, OFF_GRID, JUMP, HOLE, SAME_CELL, SWAP, GOAL_MISSED = map(int, Finding)


@compiled
def read_cells(text, stops, cells):
    """Digits up to a comma are a row, up to a closing bracket a column; a line break ends a path."""
    number = path = cell = 0
    for byte in text:
        if 48 <= byte <= 57:
            number = 10 * number + byte - 48
        elif byte == 44:
            cells[cell, 0] = number
            number = 0
        elif byte == 41:
            cells[cell, 1] = number
            number = 0
            cell += 1
        elif byte == 10:
            stops[path] = cell
            path += 1


@compiled
def judge(sizes, agents, ends, holes, board, optimum, stops, cells, found, now, before):
    """Fill `found`, zeros before, with a judgement a plan.

    `now` and `before`, int64 (agents,), are room to work in.
    """
    path = 0
    for plan in range(len(board)):
        b = board[plan]
        judgement = found[plan]
        paths = stops[path : path + agents[b]]
        begin = stops[path - 1] if path else 0
        path += agents[b]
        _measure(ends[b], begin, paths, cells, judgement)
        if not _find_violation(sizes[b], ends[b], holes[b], begin, paths, cells, judgement, now, before):
            _find_missed_goal(ends[b], begin, paths, cells, judgement)
        if judgement.finding == NOTHING:
            _price(begin, paths, cells, optimum[plan], judgement)


@compiled
def _measure(ends, begin, stops, cells, judgement):
    """Count the agents that end on their goals, and the steps of the longest path."""
    for agent in range(len(stops)):
        last = stops[agent] - 1
        judgement.arrived += cells[last, 0] == ends[agent, 2] and cells[last, 1] == ends[agent, 3]
        judgement.steps = max(judgement.steps, last - begin)
        begin = stops[agent]
    judgement.legal_steps = judgement.steps


@compiled
def _find_violation(size, ends, holes, begin, stops, cells, judgement, now, before):
    """The first illegal move, hole or conflict, in this order in one step; cells: row * MAX_SIZE + column."""
    for agent in range(len(stops)):
        now[agent] = ends[agent, 0] * MAX_SIZE + ends[agent, 1]
    for step in range(judgement.steps + 1):
        first, in_hole = begin, -1
        for agent in range(len(stops)):
            place, first, before[agent] = first + step, stops[agent], now[agent]
            if place >= stops[agent]:
                continue
            row, column = cells[place]
            if step == 0 and (row != ends[agent, 0] or column != ends[agent, 1]):
                return _note(judgement, WRONG_START, agent, step, row, column, now[agent], 0)
            if not (0 <= row < size and 0 <= column < size):
                return _note(judgement, OFF_GRID, agent, step, row, column, now[agent], 0)
            if step and abs(row - cells[place - 1, 0]) + abs(column - cells[place - 1, 1]) > 1:
                return _note(judgement, JUMP, agent, step, row, column, now[agent], 0)
            now[agent] = row * MAX_SIZE + column
            if in_hole < 0 and holes[row, column]:
                in_hole = agent
        if in_hole >= 0:
            row, column = now[in_hole] // MAX_SIZE, now[in_hole] % MAX_SIZE
            return _note(judgement, HOLE, in_hole, step, row, column, before[in_hole], 0)
        for agent in range(len(stops)):
            for other in range(agent):
                row, column = now[agent] // MAX_SIZE, now[agent] % MAX_SIZE
                if now[other] == now[agent]:
                    return _note(judgement, SAME_CELL, agent, step, row, column, before[agent], other)
                if now[other] == before[agent] and before[other] == now[agent]:
                    return _note(judgement, SWAP, agent, step, row, column, before[agent], other)
    return False


@compiled
def _find_missed_goal(ends, begin, stops, cells, judgement):
    for agent in range(len(stops)):
        last = stops[agent] - 1
        row, column = cells[last]
        if row != ends[agent, 2] or column != ends[agent, 3]:
            judgement.finding, judgement.agent, judgement.step = GOAL_MISSED, agent, last - begin
            judgement.row, judgement.column = row, column
            judgement.from_row, judgement.from_column = ends[agent, 2], ends[agent, 3]
            return
        begin = stops[agent]


@compiled
def _note(judgement, finding, agent, step, row, column, origin, other):
    judgement.finding, judgement.agent, judgement.step = finding, agent, step
    judgement.row, judgement.column = row, column
    judgement.from_row, judgement.from_column, judgement.other = origin // MAX_SIZE, origin % MAX_SIZE, other
    judgement.legal_steps = max(step - 1, 0)
    return True


@compiled
def _price(begin, stops, cells, optimum, judgement):
    """Costs of a valid plan: an agent pays until it enters its last cell for the last time."""
    for agent in range(len(stops)):
        last = arrival = stops[agent] - 1
        while (
            arrival > begin
            and cells[arrival - 1, 0] == cells[last, 0]
            and cells[arrival - 1, 1] == cells[last, 1]
        ):
            arrival -= 1
        judgement.sum_of_costs += arrival - begin
        judgement.makespan = max(judgement.makespan, arrival - begin)
        begin = stops[agent]
    judgement.optimal = judgement.sum_of_costs == optimum
    judgement.legal_steps = judgement.makespan
