"""Batches of boards through the searches, compiled; what one leaves open the caller gives to the next.

Boards are columns: free cells [n, 2] (words), stride [n], agents [n], starts and goals [n, 5] (bit indices).
"""

from typing import NamedTuple

import numpy as np

from envgen.mapf.compiled import compiled
from envgen.mapf.solver.bitboard import holds, ones
from envgen.mapf.solver.component import LONGEST_PLAN, PLAN_LENGTH, flood
from envgen.mapf.solver.cost_tree import begin, deepen
from envgen.mapf.solver.diagrams import BEST_HORIZON, FOUND, NODE_LIMIT, NODES, NOT_FOUND, OPEN
from envgen.mapf.solver.joint_search import solve_jointly
from envgen.mapf.solver.solvability import prove_solvable


class Boards(NamedTuple):
    """Boards as columns."""

    free: np.ndarray
    stride: np.ndarray
    agents: np.ndarray
    starts: np.ndarray
    goals: np.ndarray


class Answers(NamedTuple):
    """What is known of each board, and a buffer for the plans."""

    status: np.ndarray
    """FOUND + the excess over the sum of distances, NOT_FOUND, or why it is still open."""
    waits: np.ndarray
    steps: np.ndarray
    """Steps of the plan."""
    offset: np.ndarray
    """Where the plan begins in `cells`: agent by agent, steps + 1 bit indices each, padded with the goal."""
    cells: np.ndarray
    written: np.ndarray
    """[1]: how much of `cells` is taken."""


@compiled
def _has_room(answers, agents):
    return answers.written[0] + agents * LONGEST_PLAN <= len(answers.cells)


@compiled
def _store_plan(paths, steps, answers, board, agents):
    at = answers.written[0]
    answers.offset[board] = at
    answers.steps[board] = steps
    for agent in range(agents):
        for step in range(steps + 1):
            answers.cells[at] = paths[agent, step]
            at += 1
    answers.written[0] = at


@compiled
def _load(tree, boards, board):
    for agent in range(boards.agents[board]):
        tree.starts[agent] = boards.starts[board, agent]
        tree.goals[agent] = boards.goals[board, agent]


@compiled
def _next_group(component, boards, board, done):
    """The agents of the next component of the free cells: (how many, mask of all agents taken so far)."""
    agents = boards.agents[board]
    first = 0
    while (done >> first) & 1:
        first += 1
    low, high = flood(
        boards.goals[board, first], boards.stride[board], boards.free[board, 0], boards.free[board, 1]
    )
    count = 0
    for agent in range(first, agents):
        if holds(low, high, boards.goals[board, agent]):
            done |= 1 << agent
            component.members[count] = agent
            component.starts[count] = boards.starts[board, agent]
            component.goals[count] = boards.goals[board, agent]
            count += 1
    return count, done


@compiled
def _start_paths(component, boards, board):
    for agent in range(boards.agents[board]):
        component.paths[agent, :] = boards.goals[board, agent]


@compiled
def count_positions(component, boards, todo, positions):
    """Joint positions that the agents of each board in `todo` can take.

    All components of its free cells are taken together.
    """
    for place in range(len(todo)):
        board, done, total = todo[place], 0, 0
        while done != (1 << boards.agents[board]) - 1:
            count, done = _next_group(component, boards, board, done)
            low, high = boards.free[board, 0], boards.free[board, 1]
            low, high = flood(component.goals[0], boards.stride[board], low, high)
            cells, product = ones(low, high), 1
            for placed in range(count):
                product *= cells - placed
            total += product
        positions[board] = total


@compiled
def _search_groups(tree, component, boards, answers, board, most):
    """Cost tree for each component of the free cells by itself, total excesses up to `most` each.

    Returns (status, waits) of them together, plans in `paths`.
    """
    agents = boards.agents[board]
    stride, low, high = boards.stride[board], boards.free[board, 0], boards.free[board, 1]
    _start_paths(component, boards, board)
    done, total, waits, steps = 0, 0, 0, 0
    while done != (1 << agents) - 1:
        count, done = _next_group(component, boards, board, done)
        for rank in range(count):
            tree.starts[rank] = component.starts[rank]
            tree.goals[rank] = component.goals[rank]
        nodes = tree.counters[NODES]
        status, group_waits = begin(tree, count, stride, low, high), 0
        tree.counters[NODES] = nodes
        if status == OPEN:
            status, group_waits = deepen(tree, count, 0, most, stride, low, high)
        if status < FOUND:
            return status, 0
        total += status - FOUND
        waits += group_waits
        steps = max(steps, tree.counters[BEST_HORIZON])
        for rank in range(count):
            for step in range(tree.counters[BEST_HORIZON] + 1):
                component.paths[component.members[rank], step] = tree.best[rank, step]
    _store_plan(component.paths, steps, answers, board, agents)
    return FOUND + total, waits


@compiled
def search_trees(tree, component, nodes, boards, answers, todo, least, most):
    """Cost tree with total excesses `least` to `most` for the boards in `todo`.

    In `nodes` [board] joint moves; returns how many were done before room ran out.
    """
    for place in range(len(todo)):
        board = todo[place]
        tree.counters[NODE_LIMIT] = nodes[board]
        agents = boards.agents[board]
        if not _has_room(answers, agents):
            return place
        stride, low, high = boards.stride[board], boards.free[board, 0], boards.free[board, 1]
        _load(tree, boards, board)
        waits = 0
        status = begin(tree, agents, stride, low, high)
        if status >= FOUND:
            _store_plan(tree.best, tree.counters[BEST_HORIZON], answers, board, agents)
        elif status == OPEN and least <= most:
            count, _ = _next_group(component, boards, board, 0)
            if count < agents:
                status, waits = _search_groups(tree, component, boards, answers, board, most)
            else:
                status, waits = deepen(tree, agents, least, most, stride, low, high)
                if status >= FOUND:
                    _store_plan(tree.best, tree.counters[BEST_HORIZON], answers, board, agents)
        answers.status[board] = status
        answers.waits[board] = waits
    return len(todo)


@compiled
def prove_boards(space, boards, answers, todo, steps):
    """Prove the boards listed in `todo` solvable, or not, in `steps` joint positions a set of agents.

    Sets `status` to what was found.
    """
    for place in range(len(todo)):
        board = todo[place]
        stride, low, high = boards.stride[board], boards.free[board, 0], boards.free[board, 1]
        everyone = (1 << boards.agents[board]) - 1
        done, status = 0, FOUND
        while done != everyone and status != NOT_FOUND:
            count, done = _next_group(space.component, boards, board, done)
            result = prove_solvable(space, count, steps, stride, low, high)
            if result != FOUND:
                status = result
        answers.status[board] = status


@compiled
def _keep_group(component, count):
    """Copy the plan of a group into the paths of the board."""
    for rank in range(count):
        for step in range(component.counters[PLAN_LENGTH] + 1):
            component.paths[component.members[rank], step] = component.cell[component.plan[step, rank]]


@compiled
def search_jointly(space, boards, answers, todo):
    """Joint search, component by component, of the solvable boards listed in `todo`.

    Returns how many were done before room ran out.
    """
    component = space.component
    for place in range(len(todo)):
        board = todo[place]
        agents = boards.agents[board]
        if not _has_room(answers, agents):
            return place
        stride, low, high = boards.stride[board], boards.free[board, 0], boards.free[board, 1]
        everyone = (1 << agents) - 1
        done, total, waits, steps, status = 0, 0, 0, 0, FOUND
        _start_paths(component, boards, board)
        while done != everyone and status >= FOUND:
            count, done = _next_group(component, boards, board, done)
            status, group_waits = solve_jointly(space, count, stride, low, high)
            total += status - FOUND
            waits += group_waits
            if status >= FOUND:
                steps = max(steps, component.counters[PLAN_LENGTH])
                _keep_group(component, count)
        answers.status[board] = FOUND + total if status >= FOUND else status
        if status >= FOUND:
            answers.waits[board] = waits
            _store_plan(component.paths, steps, answers, board, agents)
    return len(todo)
