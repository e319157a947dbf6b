"""Batches of boards through the searches, compiled.

The cost tree goes first, for a short while; then comes a proof that there is a plan, and the cost tree for
longer; where that gives up, the search over joint positions. Which search answers decides speed only.
"""

from envgen.mapf.compiled import compiled
from envgen.mapf.solver.bitboard import count_cells, flood, holds, read, write
from envgen.mapf.solver.cost_tree import begin, deepen
from envgen.mapf.solver.joint_search import search_jointly
from envgen.mapf.solver.memory import ENTRIES, FOUND, GIVEN_UP, NOT_FOUND, OPEN
from envgen.mapf.solver.solvability import prove_solvable

UNPROVEN_EXCESS, UNPROVEN_NODES = 16, 200
"""What the cost tree tries before a board is proven solvable.

Excess over the sum of distances, in so many joint moves.
"""
LARGEST_EXCESS = 127
"""All that the cost tree can count."""
PROOF_STEPS = 10_000
"""Joint positions of the first proof."""
SOME_POSITIONS = 400_000
"""Boards with no more joint positions than this go to the joint search early.

The cost tree of a quarter as many joint moves comes before it, within FEW_TREE_NODES.
"""
FEW_TREE_NODES, LONG_TREE_NODES = (200, 40_000), 100_000_000
"""Work of the cost tree on one board, in joint moves, before it gives up."""


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
    first_nodes = UNPROVEN_NODES if tree_nodes < 0 else tree_nodes
    status, waits = _search_tree(m, boards, answers, board, 0, UNPROVEN_EXCESS, first_nodes)
    if status >= NOT_FOUND:
        return status, waits
    if _prove(m, boards, board, PROOF_STEPS) == NOT_FOUND:
        return NOT_FOUND, 0
    if tree_nodes != 0:
        least = UNPROVEN_EXCESS + 1 if status == OPEN else 0
        nodes = _nodes_by_size(m, boards, board) if tree_nodes < 0 else tree_nodes
        status, waits = _search_tree(m, boards, answers, board, least, LARGEST_EXCESS, nodes)
        if status >= FOUND:
            return status, waits
    if _prove(m, boards, board, ENTRIES) == NOT_FOUND:
        return NOT_FOUND, 0
    return _search_joint_positions(m, boards, answers, board, entries)


@compiled
def _everyone(boards, board):
    return (1 << boards.agents[board]) - 1


@compiled
def _take(m, boards, board, cells):
    """Make the agents whose goals are among some cells the group; their mask."""
    m.agents, mask = 0, 0
    for agent in range(boards.agents[board]):
        if holds(cells, boards.goals[board, agent]):
            mask |= 1 << agent
            m.ids[m.agents] = agent
            m.starts[m.agents] = boards.starts[board, agent]
            m.goals[m.agents] = boards.goals[board, agent]
            m.agents += 1
    return mask


@compiled
def _take_next(m, boards, board, done):
    """Make the agents of the next component of the free cells the group; the mask of all taken so far."""
    first = 0
    while (done >> first) & 1:
        first += 1
    return done | _take(m, boards, board, flood(m, boards.goals[board, first]))


@compiled
def _store_plan(m, answers, board):
    """Store the plan of the group."""
    for agent in range(m.agents):
        answers.steps[board, m.ids[agent]] = m.plan_steps
        for step in range(m.plan_steps + 1):
            answers.cells[board, step, m.ids[agent]] = m.plan[agent, step]


@compiled
def _search_tree(m, boards, answers, board, least, most, nodes):
    """Cost tree, excesses `least` to `most`, within so many joint moves: status and waits, plans stored.

    Component by component, each with an excess of 0 to `most`, if the free cells fall apart.
    """
    m.nodes, m.node_limit = 0, nodes
    _take(m, boards, board, read(m.free))
    status = begin(m)
    if status == FOUND and nodes:
        _store_plan(m, answers, board)
    if status != OPEN or nodes == 0:
        return (GIVEN_UP if nodes == 0 and status == FOUND else status), 0
    done, total, all_waits = 0, 0, 0
    while done != _everyone(boards, board):
        done = _take_next(m, boards, board, done)
        waits = 0
        if m.agents < boards.agents[board]:
            least, status = 0, begin(m)
        if status == OPEN:
            status, waits = deepen(m, least, most)
        if status < FOUND:
            return status, 0
        _store_plan(m, answers, board)
        total += status - FOUND
        all_waits += waits
    return FOUND + total, all_waits


@compiled
def _prove(m, boards, board, steps):
    """Prove a board solvable or not, in `steps` joint positions a set of agents."""
    done, status = 0, FOUND
    while done != _everyone(boards, board) and status != NOT_FOUND:
        done = _take_next(m, boards, board, done)
        result = prove_solvable(m, steps)
        status = status if result == FOUND else result
    return status


@compiled
def _nodes_by_size(m, boards, board):
    """Joint moves after which the cost tree hands a board over to the joint search."""
    done, total = 0, 0
    while done != _everyone(boards, board):
        done = _take_next(m, boards, board, done)
        positions = 1
        for agent in range(m.agents):
            positions *= count_cells(flood(m, m.goals[0])) - agent
        total += positions
    if total > SOME_POSITIONS:
        return LONG_TREE_NODES
    return min(max(total // 4, FEW_TREE_NODES[0]), FEW_TREE_NODES[1])


@compiled
def _search_joint_positions(m, boards, answers, board, entries):
    """Joint search, component by component, of a solvable board: status and waits, plans stored."""
    done, total, all_waits = 0, 0, 0
    while done != _everyone(boards, board):
        done = _take_next(m, boards, board, done)
        status, waits = search_jointly(m, entries)
        if status < FOUND:
            return status, 0
        _store_plan(m, answers, board)
        total += status - FOUND
        all_waits += waits
    return FOUND + total, all_waits
