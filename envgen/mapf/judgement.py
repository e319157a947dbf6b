"""What is found out about a judged plan, as numbers that compiled code can write."""

from enum import IntEnum
from typing import NamedTuple

import numpy as np


class Finding(IntEnum):
    """What a plan got wrong first."""

    NOTHING = 0
    WRONG_START = 1
    OFF_GRID = 2
    JUMP = 3
    HOLE = 4
    SAME_CELL = 5
    SWAP = 6
    GOAL_MISSED = 7


class Judgement(NamedTuple):
    """One judged plan, all whole numbers."""

    finding: int
    """A `Finding`; the next seven fields are 0 if there is none."""
    agent: int
    step: int
    row: int
    column: int
    from_row: int
    """Where the agent stood a step before (of a wrong start or end: where it should stand)."""
    from_column: int
    other: int
    """The other agent of a conflict."""
    sum_of_costs: int
    """Of a valid plan, as the makespan and the optimal flag; else 0."""
    makespan: int
    optimal: int
    arrived: int
    """Agents that end on their goals."""
    steps: int
    """Of the longest path."""
    legal_steps: int
    """Steps before the first violation; of a valid plan its makespan."""


JUDGEMENT = np.dtype([(name, np.int64) for name in Judgement._fields])
"""A `Judgement` as a row of an array."""
