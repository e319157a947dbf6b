"""Batches of boards through the searches, compiled. What each search leaves open is for the caller to give to the next.

Boards are columns: free cells [n, 2] (words), stride [n], agents [n], starts and goals [n, 5] (bit indices).
"""

from typing import NamedTuple

import numpy as np

from envgen.bitboard import NONE, holds, neighbours, word_pair
from envgen.compiled import compiled
from envgen.cost_tree import BEST_HORIZON, FOUND, NOT_FOUND, OPEN, begin, deepen, keep, least_makespan
from envgen.joint_search import LONGEST_PLAN, PLAN_LENGTH, prove_solvable, solve_jointly


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
def _store_tree_plan(tree, answers, board, agents):
    steps = tree.counters[BEST_HORIZON]
    at = answers.written[0]
    answers.offset[board] = at
    answers.steps[board] = steps
    for agent in range(agents):
        for step in range(steps + 1):
            answers.cells[at] = tree.best[agent, step]
            at += 1
    answers.written[0] = at


@compiled
def _load(tree, boards, board):
    for agent in range(boards.agents[board]):
        tree.starts[agent] = boards.starts[board, agent]
        tree.goals[agent] = boards.goals[board, agent]


@compiled
def search_trees(tree, boards, answers, todo, least, most):
    """Cost tree with total excesses `least` to `most` for the boards listed in `todo`; how many were done before room ran out."""
    for place in range(len(todo)):
        board = todo[place]
        agents = boards.agents[board]
        if not _has_room(answers, agents):
            return place
        stride, low, high = boards.stride[board], boards.free[board, 0], boards.free[board, 1]
        _load(tree, boards, board)
        waits = 0
        status = begin(tree, agents, stride, low, high)
        if status == OPEN:
            status, waits = deepen(tree, agents, least, most, stride, low, high)
        answers.status[board] = status
        if status >= FOUND:
            answers.waits[board] = waits
            _store_tree_plan(tree, answers, board, agents)
    return len(todo)


@compiled
def search_makespans(tree, boards, answers, todo, most):
    """As `search_trees`, for the least makespan; the status is FOUND + the makespan, up to `most` steps."""
    for place in range(len(todo)):
        board = todo[place]
        agents = boards.agents[board]
        if not _has_room(answers, agents):
            return place
        stride, low, high = boards.stride[board], boards.free[board, 0], boards.free[board, 1]
        _load(tree, boards, board)
        status = begin(tree, agents, stride, low, high)
        if status in (FOUND, OPEN):
            status = least_makespan(tree, agents, most, stride, low, high)
        answers.status[board] = status
        if status >= FOUND:
            keep(tree, agents)
            _store_tree_plan(tree, answers, board, agents)
    return len(todo)


@compiled
def _next_group(boards, board, done, starts, goals, members):
    """The agents of the next component of the free cells: (how many, mask of all agents taken so far)."""
    agents = boards.agents[board]
    first = 0
    while (done >> first) & 1:
        first += 1
    low, high = word_pair(boards.goals[board, first])
    while True:
        near_low, near_high = neighbours(low, high, boards.stride[board], boards.free[board, 0], boards.free[board, 1])
        if (near_low & ~low) == NONE and (near_high & ~high) == NONE:
            break
        low |= near_low
        high |= near_high
    count = 0
    for agent in range(first, agents):
        if holds(low, high, boards.goals[board, agent]):
            done |= 1 << agent
            members[count] = agent
            starts[count] = boards.starts[board, agent]
            goals[count] = boards.goals[board, agent]
            count += 1
    return count, done


@compiled
def prove_boards(joint, boards, answers, todo, steps):
    """Prove the boards listed in `todo` solvable, in `steps` joint positions a set of agents, or not; sets `status` to what was found."""
    for place in range(len(todo)):
        board = todo[place]
        everyone = (1 << boards.agents[board]) - 1
        done, status = 0, FOUND
        while done != everyone and status != NOT_FOUND:
            count, done = _next_group(boards, board, done, joint.group_starts, joint.group_goals, joint.group_members)
            result = prove_solvable(
                joint, joint.group_starts, joint.group_goals, count, steps, boards.stride[board], boards.free[board, 0], boards.free[board, 1]
            )
            if result != FOUND:
                status = result
        answers.status[board] = status


@compiled
def search_jointly(joint, boards, answers, todo):
    """Joint search, component by component, of the solvable boards listed in `todo`; how many were done before room ran out."""
    for place in range(len(todo)):
        board = todo[place]
        agents = boards.agents[board]
        if not _has_room(answers, agents):
            return place
        everyone = (1 << agents) - 1
        done, total, waits, steps, status = 0, 0, 0, 0, FOUND
        for agent in range(agents):
            joint.paths[agent, :] = boards.goals[board, agent]
        while done != everyone and status >= FOUND:
            count, done = _next_group(boards, board, done, joint.group_starts, joint.group_goals, joint.group_members)
            status, group_waits = solve_jointly(
                joint, joint.group_starts, joint.group_goals, count, boards.stride[board], boards.free[board, 0], boards.free[board, 1]
            )
            total += status - FOUND
            waits += group_waits
            if status >= FOUND:
                steps = max(steps, joint.counters[PLAN_LENGTH])
                for rank in range(count):
                    for step in range(joint.counters[PLAN_LENGTH] + 1):
                        joint.paths[joint.group_members[rank], step] = joint.cell[joint.plan[step, rank]]
        answers.status[board] = FOUND + total if status >= FOUND else status
        if status >= FOUND:
            answers.waits[board] = waits
            answers.steps[board] = steps
            at = answers.written[0]
            answers.offset[board] = at
            for agent in range(agents):
                for step in range(steps + 1):
                    answers.cells[at] = joint.paths[agent, step]
                    at += 1
            answers.written[0] = at
    return len(todo)
