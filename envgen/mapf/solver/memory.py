"""Working memory of the compiled searches: one record for a process, used again for every board.

Cells are numbered row * size + column. The cost of a plan is its excess over the sum of distances, then its
waits: a move towards the goal costs no excess, a wait 1, a move away 2.
"""

import hashlib
from pathlib import Path

import numpy as np

CELLS, AGENTS, PAIRS = 100, 5, 10
ARRIVED = CELLS
"""State of an agent that has arrived for good and rests on its goal; the other states are cells."""
STATES = CELLS + 1
LONGEST = 512
"""Positions of the longest path."""
MAX_EXCESS = 511
"""Highest excess of a plan, of one agent or of all."""
LEVEL = 2048
"""A cost is the integer excess * LEVEL + waits, so that costs add up and compare as (excess, waits) do."""
MAX_COST = (MAX_EXCESS + 1) * LEVEL - 1
NEVER = 1 << 24
"""Cost of what cannot be finished."""
FAR, TAKEN = 30_000, -1
"""Distance of a cell that cannot be reached, and of a cell that may not be entered."""
MAX_ENTRIES = 1 << 24
"""Slots for joint positions, a power of two; a search uses 36 bytes for each slot that it fills."""
EXCESSES, STEPS = 32, 128
"""Excesses of one agent for which there are diagrams, from 0 on, and steps of a diagram."""
FEW_SLOTS, MANY_SLOTS, LAYERS = 1 << 13, 1 << 21, 1 << 21
"""Slots of a step of a first and of a second sweep, and entries of all steps."""
VERDICTS = 4096
"""Verdicts on sets of ranks that are kept for a group."""
ANY_WAITS = 1 << 20
"""Limit of waits of a plan that may have any number."""
UNSOLVABLE, UNDECIDED, FULL = -1, -2, -3
"""Results in place of a cost. FULL: the search needs more slots."""

_SOURCES = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))))
_NUMBER, _WORD = np.int64, np.uint64
MEMORY = np.dtype(
    [
        # the board
        ("size", _NUMBER),
        ("agents", _NUMBER),
        ("start", _NUMBER, (AGENTS,)),
        ("goal", _NUMBER, (AGENTS,)),
        ("near", _NUMBER, (CELLS, 4)),  # [cell, way]: free neighbours in ascending order
        ("degree", _NUMBER, (CELLS,)),
        ("distance", _NUMBER, (AGENTS, CELLS)),  # [agent, cell]: moves to the goal
        # its plan
        ("paths", _NUMBER, (AGENTS, LONGEST)),  # [agent, step]: cells up to the last arrival
        ("arrival", _NUMBER, (AGENTS,)),
        ("placed", _NUMBER, (AGENTS,)),  # agents in the order in which their paths are fixed
        ("group", _NUMBER, (AGENTS,)),  # [agent]: smallest agent of its group
        ("group_size", _NUMBER, (AGENTS,)),
        ("group_cost", _NUMBER, (AGENTS,)),  # of the group's plan, or a lower bound before it is planned
        ("planned", np.uint8, (AGENTS,)),
        # the group that is planned: its agents are addressed by rank
        ("count", _NUMBER),
        ("members", _NUMBER, (AGENTS,)),
        ("home", _NUMBER, (AGENTS,)),  # [rank]: goal
        # [rank, state]: moves to the goal; 2 on the goal before the last arrival, for out and back
        ("ahead", _NUMBER, (AGENTS, STATES)),
        # [ranks that have arrived, rank, state]: cost of a rank past them
        ("alone", np.int32, (1 << AGENTS, AGENTS, STATES)),
        ("alone_filled", np.uint8, (1 << AGENTS,)),
        # [pair, state, state]: cost of two ranks, the others ignored
        ("pairs", np.int32, (PAIRS, STATES, STATES)),
        # diagrams of the members: sets of cells are two words
        ("masks", _WORD, (3, 2)),
        ("tree", _NUMBER),
        ("strict", _NUMBER),  # 1 if waits are forbidden
        ("work", _NUMBER),
        ("work_limit", _NUMBER),
        ("horizon", _NUMBER),
        ("length", _NUMBER, (AGENTS,)),  # [rank]: distance of its start
        ("excess", _NUMBER, (AGENTS,)),  # the vector at hand
        ("left", _NUMBER, (AGENTS,)),
        ("radius", _NUMBER, (AGENTS,)),
        ("reach", _WORD, (AGENTS, STEPS, 2)),  # [rank, moves]: cells from which the goal is at most so far
        ("diagrams", _WORD, (AGENTS, 2 * EXCESSES, STEPS, 2)),  # [rank, 2 * excess + strict, step]
        ("built", _NUMBER, (AGENTS, 2 * EXCESSES)),
        ("too_little", _NUMBER, (PAIRS, EXCESSES)),
        ("enough", _NUMBER, (PAIRS, EXCESSES)),
        ("strict_verdicts", _NUMBER, (PAIRS, EXCESSES, EXCESSES)),
        # sets of three and four ranks: the set as a mask, strict, whether it can finish, the excesses
        ("verdict_count", _NUMBER),
        ("verdicts", _NUMBER, (VERDICTS, 3 + AGENTS)),
        ("picked", _NUMBER, (AGENTS,)),  # the ranks of a sweep
        ("meets", np.uint8, (PAIRS,)),
        ("table_keys", _NUMBER, (PAIRS,)),
        ("table_ends", _NUMBER, (PAIRS,)),
        ("finish", _WORD, (PAIRS + 1, STEPS, CELLS, 2)),  # [pair, step, cell]: cells of the second rank
        ("spread", _WORD, (2, CELLS, 2)),
        ("turns", _NUMBER, (AGENTS,)),
        ("front", _WORD, (STEPS, 2)),
        ("plans", _NUMBER, (AGENTS, STEPS)),  # [rank, step]
        ("choices", _WORD, (AGENTS, 2)),
        ("layer_begin", _NUMBER, (STEPS + 1,)),
        ("layer_keys", _WORD, (LAYERS,)),
        ("layer_cells", _WORD, (LAYERS, 2)),
        # scratch
        ("queue", _NUMBER, (CELLS,)),
        ("layer", _NUMBER, (CELLS,)),
        ("stamp", _NUMBER),
        ("stamps", _NUMBER, (CELLS,)),
        # an expansion: positions by rank, and by rank how it goes on
        ("before", _NUMBER, (AGENTS,)),
        ("after", _NUMBER, (AGENTS,)),
        ("way", _NUMBER, (AGENTS,)),
        ("gain", _NUMBER, (PAIRS,)),
        ("spent", _NUMBER, (AGENTS + 1,)),
        ("rest", _NUMBER, (AGENTS + 1,)),
        # joint positions: a hash table, and an open list that holds a stack for each bucket
        ("entries", _NUMBER),
        ("generation", _NUMBER),
        ("used", _NUMBER),
        ("opened", _NUMBER),
        ("highest", _NUMBER),
        ("heads", _NUMBER, ((MAX_EXCESS + 1) * (MAX_EXCESS + 2) // 2,)),
        ("keys", np.uint64, (MAX_ENTRIES,)),
        ("costs", np.int32, (MAX_ENTRIES,)),
        ("parents", np.int32, (MAX_ENTRIES,)),
        ("waiting", np.int32, (MAX_ENTRIES,)),  # bound of the cost in the end with which a slot is open
        ("node_slot", np.int32, (2 * MAX_ENTRIES,)),
        ("node_link", np.int32, (2 * MAX_ENTRIES,)),
        # numba keeps machine code by the types of arguments, and looks for changes only in the file of the
        # function that is called: a type that names all sources keeps it from using old code
        (f"sources_{_SOURCES.hexdigest()[:16]}", np.uint8),
    ]
)


def new_memory() -> np.void:
    """Return working memory; the system provides pages only where a search writes."""
    memory = np.zeros(1, dtype=MEMORY)[0]
    memory["heads"] = -1
    return memory
