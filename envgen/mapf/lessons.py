"""The spaces of the lessons that the base policy is taught in the engineer task."""

import numpy as np

from envgen.family import Space
from envgen.mapf.config import MAX_HOLE_RATIO
from envgen.mapf.problem import MAX_SIZE, MIN_SIZE
from envgen.mapf.space import Options, space_of

FEWEST_SIZES, MOST_SIZES = 3, 6
HOLE_STEPS = 10
"""The ends of a hole ratio's range are multiples of 1/10."""


def usual_space() -> Space:
    """The space of half of the lessons, that of the preset `tiny`."""
    return space_of(Options(map_sizes=(3, 4, 5, 6), min_hole_ratio=0.2, max_hole_ratio=0.4))


def random_space(rng: np.random.Generator) -> Space:
    """The usual space, or one of some neighbouring map sizes with a range of hole ratios of its own."""
    if rng.random() < 0.5:
        return usual_space()
    count = int(rng.integers(FEWEST_SIZES, MOST_SIZES + 1))
    first = int(rng.integers(MIN_SIZE, MAX_SIZE - count + 2))
    low, high = sorted(rng.choice(round(MAX_HOLE_RATIO * HOLE_STEPS) + 1, 2, replace=False) / HOLE_STEPS)
    sizes = tuple(range(first, first + count))
    return space_of(Options(map_sizes=sizes, min_hole_ratio=float(low), max_hole_ratio=float(high)))
