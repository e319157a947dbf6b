"""Sets of cells as two 64-bit words, the operations that every search is made of, compiled.

Cell (r, c) of a board with n cells a side is bit r * (n + 1) + c; the unused column keeps shifts from
wrapping. The first word holds bits 0..63, the second bits 64..127. In tables a set is the last axis.
"""

import numpy as np

from envgen.mapf.compiled import compiled

NONE, ONE, LAST, WORD = np.uint64(0), np.uint64(1), np.uint64(63), np.uint64(64)
NO_CELLS = (NONE, NONE)
_TWO, _FOUR, _LAST_BYTE = np.uint64(2), np.uint64(4), np.uint64(56)
_MASKS = tuple(np.uint64(0x0101010101010101 * byte) for byte in (0x55, 0x33, 0x0F, 0x01))


@compiled
def _ones(word):
    """Number of ones in a word, as the compiler knows it: one instruction (Warren 2012, chapter 5)."""
    word -= (word >> ONE) & _MASKS[0]
    word = (word & _MASKS[1]) + ((word >> _TWO) & _MASKS[1])
    word = (word + (word >> _FOUR)) & _MASKS[2]
    return (word * _MASKS[3]) >> _LAST_BYTE


@compiled
def count_cells(cells):
    """Number of cells in a set."""
    return np.int64(_ones(cells[0]) + _ones(cells[1]))


@compiled
def lowest(cells):
    """The first cell of a set that is not empty."""
    if cells[0]:
        return np.int64(_ones(~cells[0] & (cells[0] - ONE)))
    return np.int64(_ones(~cells[1] & (cells[1] - ONE))) + 64


@compiled
def only(cell):
    """The set of one cell."""
    if cell < 64:
        return ONE << np.uint64(cell), NONE
    return NONE, ONE << np.uint64(cell - 64)


@compiled
def holds(cells, cell):
    """Whether a set holds a cell."""
    if cell < 64:
        return (cells[0] >> np.uint64(cell)) & ONE != NONE
    return (cells[1] >> np.uint64(cell - 64)) & ONE != NONE


@compiled
def is_empty(cells):
    """Whether a set holds no cell."""
    return (cells[0] | cells[1]) == NONE


@compiled
def either(first, second):
    """The cells of two sets."""
    return first[0] | second[0], first[1] | second[1]


@compiled
def both(first, second):
    """The cells that two sets share."""
    return first[0] & second[0], first[1] & second[1]


@compiled
def without(cells, taken):
    """The cells of the first set that are not in the second."""
    return cells[0] & ~taken[0], cells[1] & ~taken[1]


@compiled
def read(row):
    """The set in a row of a table."""
    return row[0], row[1]


@compiled
def write(row, cells):
    """Put a set into a row of a table."""
    row[0] = cells[0]
    row[1] = cells[1]


@compiled
def neighbours(m, cells):
    """Free cells next to any of the given cells."""
    low, high, stride = cells[0], cells[1], m.stride
    rest = WORD - stride
    near_low = (
        (low << ONE) | (low >> ONE) | (high << LAST) | (low << stride) | (low >> stride) | (high << rest)
    )
    near_high = (
        (high << ONE) | (low >> LAST) | (high >> ONE) | (high << stride) | (low >> rest) | (high >> stride)
    )
    return near_low & m.free[0], near_high & m.free[1]


@compiled
def within_a_step(m, cells):
    """The cells, and their free neighbours."""
    return either(neighbours(m, cells), cells)


@compiled
def flood(m, cell):
    """The free cells that can be reached from one."""
    cells = only(cell)
    while True:
        near = neighbours(m, cells)
        if is_empty(without(near, cells)):
            return cells
        cells = either(cells, near)
