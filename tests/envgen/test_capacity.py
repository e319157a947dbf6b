"""How many distinct boards a class holds."""

import json

import pytest
from support.enumerated_boards import board_count, enumerate_capacity

from envgen.mapf.capacity import ENUMERABLE, TABLE, Capacity, enumerated_capacity


@pytest.mark.parametrize("holes", range(5))
def test_the_table_holds_what_enumeration_counts(holes: int):
    assert enumerated_capacity(3, 2, holes) == enumerate_capacity(3, 2, holes)


def test_five_agents_on_five_cells_cannot_move():
    assert enumerated_capacity(3, 5, 4) == enumerate_capacity(3, 5, 4) == Capacity(0, 0)


@pytest.mark.slow
@pytest.mark.long
def test_the_whole_table_is_what_enumeration_counts():
    for name, counts in json.loads(TABLE.read_text()).items():
        size, agents, holes = map(int, name.split())
        assert enumerate_capacity(size, agents, holes) == tuple(counts), name


def test_the_table_has_every_class_that_is_small_enough():
    small = {
        f"{s} {a} {h}"
        for s in range(3, 11)
        for a in range(2, 6)
        for h in range(s * s // 2 + 1)
        if 0 < board_count(s, a, h) <= ENUMERABLE
    }
    assert set(json.loads(TABLE.read_text())) == small


def test_a_large_class_is_not_counted():
    assert enumerated_capacity(6, 3, 7) is None
