"""Working memory of the compiled searches: one record for a process, used again for every board.

One record, so that a call passes one pointer and the compiler knows every shape. Sets of cells are two words,
the last axis. A stamp or generation marks what is left of earlier boards.
"""

import numpy as np

from envgen.mapf.solver.columns import LONGEST_PLAN

AGENTS, PAIRS = 5, 10
CELLS = 112
"""Bit indices of the largest board, rounded up: 10 rows of 11."""
ARRIVED = CELLS
"""State of an agent that has arrived for good, on its goal; the other states are cells."""
LONGEST = 256
"""Steps of a diagram."""
LEVELS = 128
"""Excesses of one agent for which there are diagrams, from 0 on."""
EXCESSES, MOST_WAITS = 256, 256
"""Bounds of the excess and of the waits of a plan."""
ENTRIES = 1 << 24
"""Slots for joint positions, a power of two."""
LAYERS = 1 << 21
"""Joint positions of all steps that a sweep may hold."""
VERDICTS = 4096
"""Verdicts on sets of agents that are remembered for a group."""
FOUND, NOT_FOUND, GIVEN_UP, FULL, TOO_LONG, OPEN = 1, 0, -1, -2, -3, -4
"""Results of searches: a plan or a proof; none; too much work; no room for more joint positions; beyond the
bounds of a plan; none up to the excess that was asked for."""

_NUMBER, _WORD = np.int64, np.uint64
MEMORY = np.dtype(
    [
        # the board
        ("stride", _WORD),
        ("free", _WORD, (2,)),
        # the current group of agents: one component of the free cells, or all; cells are bit indices
        ("agents", _NUMBER),
        ("ids", _NUMBER, (AGENTS,)),  # [agent]: its number on the board
        ("starts", _NUMBER, (AGENTS,)),
        ("goals", _NUMBER, (AGENTS,)),
        ("plan", _NUMBER, (AGENTS, LONGEST_PLAN)),  # [agent, step]
        ("plan_steps", _NUMBER),
        # cost tree: diagrams
        ("stamp", _NUMBER),
        ("nodes", _NUMBER),  # joint moves made
        ("node_limit", _NUMBER),
        ("distance", _NUMBER, (AGENTS,)),
        ("reach", _WORD, (AGENTS, LONGEST, 2)),  # [agent, moves]: cells from which the goal is at most so far
        ("radius", _NUMBER, (AGENTS,)),
        ("diagrams", _WORD, (AGENTS, LEVELS, LONGEST, 2)),  # [agent, excess, step]
        ("diagram_stamps", _NUMBER, (AGENTS, LEVELS)),
        ("excess", _NUMBER, (AGENTS,)),  # the vector at hand
        ("left", _NUMBER, (AGENTS,)),
        ("horizon", _NUMBER),  # the last arrival of the vector
        ("front", _WORD, (LONGEST, 2)),
        ("paths", _NUMBER, (AGENTS, LONGEST)),  # [agent, step]: padded with the goal up to the horizon
        # cost tree: pairs; [pair, excess of the first]: stamp and 255 less the least excess of the second
        # with which both can finish, stamp and the largest with which they cannot
        ("enough", _NUMBER, (PAIRS, LEVELS)),
        ("short", _NUMBER, (PAIRS, LEVELS)),
        ("meets", _NUMBER, (PAIRS,)),  # whether the diagrams of the vector at hand meet
        ("table_keys", _NUMBER, (PAIRS,)),
        # [pair, step, cell of the first]: cells of the second from which both can still finish; one to spare
        ("tables", _WORD, (PAIRS + 1, LONGEST, CELLS, 2)),
        ("spread", _WORD, (2, CELLS, 2)),  # [step & 1, cell]: cells from which to step into the table's set
        # cost tree: groups of agents
        ("members", _NUMBER, (AGENTS,)),  # the agents that are planned together
        ("queue", _NUMBER, (AGENTS,)),  # [rank]: who is planned after whom
        ("group", _NUMBER, (AGENTS,)),  # [agent]: mask of the agents that it gets in the way of
        ("verdict_count", _NUMBER),
        ("verdicts", _NUMBER, (VERDICTS, 2 + AGENTS)),  # [entry]: mask, verdict and excesses
        ("choices", _WORD, (AGENTS, 2)),  # [rank]: cells that are still to be entered
        # sweep, [entry]: positions of all members, the entry that they were reached from, waits so far
        ("layer_keys", _WORD, (LAYERS,)),
        ("layer_parents", _NUMBER, (LAYERS,)),
        ("layer_waits", _NUMBER, (LAYERS,)),
        # the component of the free cells: a graph
        ("degree", _NUMBER, (CELLS,)),
        ("near", _NUMBER, (CELLS, 4)),
        ("moves_to_goal", _NUMBER, (AGENTS, CELLS)),
        # a joint move: states before and after, of agents or members; by agent how it goes on
        ("before", _NUMBER, (AGENTS,)),
        ("after", _NUMBER, (AGENTS,)),
        ("choice", _NUMBER, (AGENTS,)),
        ("spent", _NUMBER, (AGENTS + 1,)),
        ("waited", _NUMBER, (AGENTS + 1,)),
        # joint positions: a hash table, and an open list that holds a stack for each bucket
        ("entries", _NUMBER),
        ("generation", _NUMBER),
        ("taken", _NUMBER),
        ("opened", _NUMBER),
        ("highest", _NUMBER),
        ("heads", _NUMBER, (EXCESSES * MOST_WAITS,)),
        ("keys", _WORD, (ENTRIES,)),
        ("costs", np.int32, (ENTRIES,)),
        ("parents", np.int32, (ENTRIES,)),
        # excess of the successors that a slot in the open list is to enter next
        ("waiting", np.int32, (ENTRIES,)),
        ("node_slots", np.int32, (2 * ENTRIES,)),
        ("node_links", np.int32, (2 * ENTRIES,)),
    ]
)


def new_memory() -> np.void:
    """Return working memory; the system provides pages only where a search writes."""
    memory = np.zeros(1, dtype=MEMORY)[0]
    memory["heads"] = -1
    return memory
