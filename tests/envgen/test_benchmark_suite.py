"""The shipped benchmark suite, and that it is drawn again bit by bit."""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from envgen.dataset import write_dataset
from envgen.environment import Source
from envgen.files import file_digest
from envgen.mapf.benchmark import (
    AGENTS,
    SUBSETS,
    SUITE,
    SUITE_SHA256,
    item_of,
    load_suite,
    read_items,
    suite_identities,
)
from envgen.mapf.problem import identity
from envgen.mapf.prompts import PromptStyle
from envgen.mapf.sampler import draw_size
from envgen.suites import Item

HOLE_RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5)
EACH = 10
"""Instances of a subset, a number of agents, a map size and a hole ratio."""


@pytest.fixture(scope="module")
def suite() -> list[Item]:
    return load_suite()


def test_the_suite_has_50_instances_of_each_class_and_subset(suite: list[Item]):
    cells = Counter(
        (item.groups["wait subset"], item.instance.problem.num_agents, item.instance.problem.size)
        for item in suite
    )
    sizes = [(agents, size) for agents in AGENTS for size in range(agents, 11)]
    assert cells == {(subset, *shape): 50 for subset in SUBSETS for shape in sizes}
    ids = [item.instance.id for item in suite]
    assert len({*ids}) == len({item.name for item in suite}) == 3 * (400 + 350 + 300)
    assert set().union(*map(suite_identities, AGENTS)) == set(ids)
    assert [identity(item.instance.problem) for item in suite[::10]] == ids[::10]


def test_the_digest_is_the_one_of_the_file():
    assert file_digest(SUITE) == SUITE_SHA256


def test_the_column_of_hole_ratios_fits_the_names(suite: list[Item]):
    ratios = pq.read_table(SUITE, columns=["hole_ratio"]).column(0).to_pylist()
    assert all(f"_hr{ratio}_" in item.name for item, ratio in zip(suite, ratios, strict=True))


def draw_again(agents: int, size: int) -> Iterator[Item]:
    """Draw the items of the suite with these agents and map size; wait labels are rounded over a subset."""
    seen: set[str] = set()
    classes = [(count, side) for count in AGENTS for side in range(count, 11)]
    for subset, wait_ratio in SUBSETS.items():
        for index, (shape, hole_ratio) in enumerate(product(classes, HOLE_RATIOS)):
            if shape != (agents, size):
                continue
            before, after = (int(wait_ratio * EACH * number + 0.5) for number in (index, index + 1))
            knobs = {"hole_ratio": hole_ratio, "wait_ratio": (after - before) / EACH}
            source = Source(2026, purpose=f"benchmark-{subset}-{hole_ratio}")
            drawn = draw_size(size, knobs, EACH, agents, source, frozenset(seen)).instances
            seen |= {instance.id for instance in drawn}
            for number, instance in enumerate(drawn):
                yield item_of(
                    instance, f"{subset}/{agents}ag_{size}x{size}_hr{hole_ratio}_{number:03d}", subset
                )


QUICK = {(3, 3), (3, 7), (4, 4), (4, 10), (5, 9)}
LONG = {(5, 6), (5, 7)}
"""Boards of five agents that are half holes: hardly any is solvable."""


@pytest.mark.parametrize(
    ("agents", "size"),
    [
        pytest.param(
            *(agents, size),
            marks=[pytest.mark.slow] * ((agents, size) not in QUICK)
            + [pytest.mark.long] * ((agents, size) in LONG),
        )
        for agents in AGENTS
        for size in range(agents, 11)
    ],
)
def test_the_suite_is_drawn_again_bit_by_bit(suite: list[Item], agents: int, size: int):
    drawn = [*draw_again(agents, size)]
    problems = [(item, item.instance.problem) for item in suite]
    assert len(drawn) == 150
    assert drawn == [item for item, one in problems if (one.num_agents, one.size) == (agents, size)]


def test_a_data_set_without_names_and_subsets_is_one_subset(suite: list[Item], tmp_path: Path):
    instances = [item.instance for item in suite[:3]]
    write_dataset(tmp_path / "d.parquet", instances, PromptStyle.BOARD, {})
    items = read_items(tmp_path / "d.parquet")
    assert [item.name for item in items] == [instance.problem.id for instance in instances]
    assert all(item.groups == {"agents": "3 agents", "map size": "3x3"} for item in items)
