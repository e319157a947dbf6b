"""The shipped benchmark suite, and that it is drawn again bit by bit."""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from envgen.dataset import write_dataset
from envgen.environment import Source
from envgen.files import file_digest
from envgen.mapf import benchmark
from envgen.mapf.benchmark import AGENTS, SUBSETS, item_of, load_suite
from envgen.mapf.problem import identity
from envgen.mapf.prompts import PromptStyle
from envgen.mapf.sampler import draw_size
from envgen.suites import Item

HOLE_RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5)
CLASSES = [(agents, size) for agents in AGENTS for size in range(agents, 11)]
EACH = 10
"""Instances of a subset, a number of agents, a map size and a hole ratio."""


@pytest.fixture(scope="module")
def suite() -> list[Item]:
    return load_suite()


def test_the_suite_has_50_instances_of_each_class_and_subset(suite: list[Item]):
    problems = [(item.groups["wait subset"], item.instance.problem) for item in suite]
    cells = Counter((subset, problem.num_agents, problem.size) for subset, problem in problems)
    assert cells == {(subset, *shape): 50 for subset in SUBSETS for shape in CLASSES}
    ids = [item.instance.id for item in suite]
    assert len({*ids}) == len({item.name for item in suite}) == 3 * (400 + 350 + 300)
    assert set().union(*map(benchmark.suite_identities, AGENTS)) == set(ids)
    assert [identity(item.instance.problem) for item in suite[::10]] == ids[::10]
    assert file_digest(benchmark.SUITE) == benchmark.SUITE_SHA256


def draw_again(agents: int, size: int) -> Iterator[Item]:
    """Draw the items of the suite with these agents and map size; wait labels are rounded over a subset."""
    seen: set[str] = set()
    for subset, wait_ratio in SUBSETS.items():
        for index, (shape, hole_ratio) in enumerate(product(CLASSES, HOLE_RATIOS)):
            if shape != (agents, size):
                continue
            before, after = (int(wait_ratio * EACH * number + 0.5) for number in (index, index + 1))
            knobs = {"hole_ratio": hole_ratio, "wait_ratio": (after - before) / EACH}
            source = Source(2026, purpose=f"benchmark-{subset}-{hole_ratio}")
            drawn = draw_size(size, knobs, EACH, agents, source, frozenset(seen)).instances
            seen |= {instance.id for instance in drawn}
            for number, instance in enumerate(drawn):
                name = f"{subset}/{agents}ag_{size}x{size}_hr{hole_ratio}_{number:03d}"
                yield item_of(instance, name, subset)


QUICK = {(3, 3), (3, 7), (4, 4), (4, 10), (5, 9)}
LONG = {(5, 6), (5, 7)}
"""Boards of five agents that are half holes: hardly any is solvable."""


MARKS = {shape: [pytest.mark.long] * (shape in LONG) for shape in CLASSES}
MARKS |= {shape: [pytest.mark.slow, *marks] for shape, marks in MARKS.items() if shape not in QUICK}


@pytest.mark.parametrize(("agents", "size"), [pytest.param(*shape, marks=MARKS[shape]) for shape in CLASSES])
def test_the_suite_is_drawn_again_bit_by_bit(suite: list[Item], agents: int, size: int):
    drawn = [*draw_again(agents, size)]
    problems = [(item, item.instance.problem) for item in suite]
    assert len(drawn) == 150
    assert drawn == [item for item, one in problems if (one.num_agents, one.size) == (agents, size)]


def test_a_data_set_without_names_and_subsets_is_one_subset(suite: list[Item], tmp_path: Path):
    instances = [item.instance for item in suite[:3]]
    write_dataset(tmp_path / "d.parquet", instances, PromptStyle.BOARD, {})
    items = benchmark.read_items(tmp_path / "d.parquet")
    assert [item.name for item in items] == [instance.problem.id for instance in instances]
    assert all(item.groups == {"agents": "3 agents", "map size": "3x3"} for item in items)
