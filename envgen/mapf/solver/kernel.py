"""Batches of boards through the searches, compiled: one component of the free cells after the other.

The cost tree goes first; a board of which it gives up a component goes to the search over joint positions.
Which search answers decides speed only.
"""

from envgen.mapf.compiled import compiled
from envgen.mapf.solver.bitboard import count_cells, flood, holds, read, write
from envgen.mapf.solver.cost_tree import begin, deepen
from envgen.mapf.solver.joint_search import search_jointly
from envgen.mapf.solver.memory import ENTRIES, FOUND, NOT_FOUND, OPEN
from envgen.mapf.solver.solvability import prove_solvable

UNPROVEN_EXCESS, UNPROVEN_NODES = 16, 200
"""What the cost tree tries before a board is proven solvable.

Excess over the sum of distances, in so many joint moves.
"""
LARGEST_EXCESS = 127
"""All that the cost tree can count."""
PROOF_STEPS = 10_000
"""Joint positions of the first proof."""


@compiled
def solve_batch(m, boards, answers, tree_nodes, entries):
    """Solve boards.

    The cost tree gives up after `tree_nodes` joint moves, or as suits the board if that is negative, the
    joint search at `entries` joint positions.
    """
    for board in range(len(boards.agents)):
        m.stride = boards.stride[board]
        write(m.free, read(boards.free[board]))
        status, waits = _solve(m, boards, answers, board, tree_nodes, entries)
        answers.status[board], answers.waits[board] = status, waits


@compiled
def _solve(m, boards, answers, board, tree_nodes, entries):
    """(FOUND + excess, waits) of a board with its plan stored, (NOT_FOUND, 0), or why it is still open."""
    done, excess, all_waits = 0, 0, 0
    while done != (1 << boards.agents[board]) - 1:
        done |= _take_next(m, boards, board, done)
        status, waits = begin(m), 0
        if status == OPEN or (status == FOUND and not tree_nodes):
            if tree_nodes:
                status, waits = _search_tree(m, tree_nodes)
            if status < NOT_FOUND or not tree_nodes:
                status, waits = _search_jointly(m, entries)
        if status < FOUND:
            return status, 0
        _store_plan(m, answers, board)
        excess += status - FOUND
        all_waits += waits
    return FOUND + excess, all_waits


@compiled
def _search_tree(m, tree_nodes):
    """Cost tree for a while, a proof that there is a plan, and the cost tree for longer, after `begin`."""
    m.nodes, m.node_limit = 0, UNPROVEN_NODES if tree_nodes < 0 else tree_nodes
    status, waits = deepen(m, 0, UNPROVEN_EXCESS)
    if status >= FOUND:
        return status, waits
    if prove_solvable(m, PROOF_STEPS) == NOT_FOUND:
        return NOT_FOUND, 0
    m.nodes, m.node_limit = 0, _nodes_by_size(m) if tree_nodes < 0 else tree_nodes
    return deepen(m, UNPROVEN_EXCESS + 1 if status == OPEN else 0, LARGEST_EXCESS)


@compiled
def _search_jointly(m, entries):
    if prove_solvable(m, ENTRIES) == NOT_FOUND:
        return NOT_FOUND, 0
    return search_jointly(m, entries)


@compiled
def _take_next(m, boards, board, done):
    """Make the agents of the next component of the free cells the group; their mask."""
    m.agents, mask, first = 0, 0, 0
    while (done >> first) & 1:
        first += 1
    cells = flood(m, boards.goals[board, first])
    for agent in range(boards.agents[board]):
        if holds(cells, boards.goals[board, agent]):
            mask |= 1 << agent
            m.ids[m.agents] = agent
            m.starts[m.agents] = boards.starts[board, agent]
            m.goals[m.agents] = boards.goals[board, agent]
            m.agents += 1
    return mask


@compiled
def _store_plan(m, answers, board):
    """Store the plan of the group."""
    for agent in range(m.agents):
        answers.steps[board, m.ids[agent]] = m.plan_steps
        for step in range(m.plan_steps + 1):
            answers.cells[board, step, m.ids[agent]] = m.plan[agent, step]


@compiled
def _nodes_by_size(m):
    """Joint moves after which the cost tree hands a group over: a quarter of the joint positions."""
    positions, cells = 1, count_cells(flood(m, m.goals[0]))
    for agent in range(m.agents):
        positions *= cells - agent
    return max(positions // 4, UNPROVEN_NODES)
