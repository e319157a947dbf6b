"""A board's cells as two 64-bit words: the operations that every search is made of, compiled.

Cell (r, c) of a board with n cells a side is bit r * (n + 1) + c; the unused column keeps shifts from
wrapping. The first word holds bits 0..63, the second bits 64..127.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from envgen.mapf.compiled import compiled

CELLS = 112
"""Bit indices of the largest board, rounded up: 10 rows of 11."""

NONE = np.uint64(0)
ONE = np.uint64(1)
LAST = np.uint64(63)
WORD = np.uint64(64)


def _count_trailing_zeros(_context, _word):
    def build(_context, builder, _signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), build


_trailing_zeros: Any = intrinsic(_count_trailing_zeros)


def _count_ones(_context, _word):
    def build(_context, builder, _signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), build


_ones: Any = intrinsic(_count_ones)


@compiled
def ones(low, high):
    """How many bits are set."""
    return np.int64(_ones(low) + _ones(high))


@compiled
def lowest(low, high):
    """Index of the lowest set bit; the words are not both zero."""
    if low:
        return np.int64(_trailing_zeros(low))
    return np.int64(_trailing_zeros(high)) + 64


@compiled
def word_pair(index):
    """The two words in which only bit `index` is set."""
    if index < 64:
        return ONE << np.uint64(index), NONE
    return NONE, ONE << np.uint64(index - 64)


@compiled
def holds(low, high, index):
    """Whether bit `index` is set."""
    if index < 64:
        return (low >> np.uint64(index)) & ONE != NONE
    return (high >> np.uint64(index - 64)) & ONE != NONE


@compiled
def neighbours(low, high, stride, free_low, free_high):
    """Free cells next to any of the given cells."""
    rest = WORD - stride
    near_low = (
        (low << ONE) | (low >> ONE) | (high << LAST) | (low << stride) | (low >> stride) | (high << rest)
    )
    near_high = (
        (high << ONE) | (low >> LAST) | (high >> ONE) | (high << stride) | (low >> rest) | (high >> stride)
    )
    return near_low & free_low, near_high & free_high


@compiled
def within_a_step(low, high, strict, stride, free_low, free_high):
    """The free neighbours of cells, and the cells themselves unless `strict` forbids to wait."""
    near_low, near_high = neighbours(low, high, stride, free_low, free_high)
    if not strict:
        near_low |= low
        near_high |= high
    return near_low, near_high
