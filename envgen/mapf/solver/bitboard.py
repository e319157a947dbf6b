"""Sets of cells as bitboards of two words: cell n is bit n of the first word, from 64 on of the second."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

NONE, ONE, LAST, WORD = np.uint64(0), np.uint64(1), np.uint64(63), np.uint64(64)


def _count_trailing_zeros(_context, _word):
    def build(_context, builder, _signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), build


_trailing_zeros: Any = intrinsic(_count_trailing_zeros)


@njit
def lowest(low, high):
    """The first cell of a set that is not empty."""
    if low:
        return np.int64(_trailing_zeros(low))
    return np.int64(_trailing_zeros(high)) + 64


@njit
def bit(cell):
    """The set of one cell."""
    if cell < 64:
        return ONE << np.uint64(cell), NONE
    return NONE, ONE << np.uint64(cell - 64)


@njit
def holds(low, high, cell):
    """Whether a set holds a cell."""
    if cell < 64:
        return (low >> np.uint64(cell)) & ONE != NONE
    return (high >> np.uint64(cell - 64)) & ONE != NONE


@njit
def read_masks(m):
    """Fill the sets of free cells, of those not in the first column, and of those not in the last."""
    m.masks[:] = NONE
    for cell in range(m.size * m.size):
        if m.degree[cell]:
            low, high = bit(cell)
            column = cell % m.size
            for mask in range(3):
                if mask == 0 or column != (0 if mask == 1 else m.size - 1):
                    m.masks[mask, 0] |= low
                    m.masks[mask, 1] |= high


@njit
def neighbours(m, low, high):
    """Free cells next to any of the given cells."""
    stride = np.uint64(m.size)
    rest = WORD - stride
    near_low = ((low << stride) | (low >> stride) | (high << rest)) & m.masks[0, 0]
    near_high = ((high << stride) | (low >> rest) | (high >> stride)) & m.masks[0, 1]
    near_low |= (low << ONE) & m.masks[1, 0]
    near_high |= ((high << ONE) | (low >> LAST)) & m.masks[1, 1]
    near_low |= ((low >> ONE) | (high << LAST)) & m.masks[2, 0]
    near_high |= (high >> ONE) & m.masks[2, 1]
    return near_low, near_high


@njit
def within_a_step(m, low, high):
    """The free neighbours of cells, and the cells themselves unless waits are forbidden."""
    near_low, near_high = neighbours(m, low, high)
    if not m.strict:
        near_low |= low
        near_high |= high
    return near_low, near_high
