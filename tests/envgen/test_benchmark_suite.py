"""The shipped benchmark suite, and that it is drawn again bit by bit."""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from envgen.dataset import write_dataset
from envgen.environment import Source
from envgen.errors import DataError
from envgen.mapf import benchmark
from envgen.mapf.benchmark import (
    AGENTS,
    SUBSETS,
    SUITE,
    item_of,
    load_suite,
    read_items,
    suite_identities,
)
from envgen.mapf.problem import identity
from envgen.mapf.prompts import PromptStyle
from envgen.mapf.sampler import draw_size
from envgen.mapf.solver.solve import solve_many
from envgen.mapf.verifier import verify_plan
from envgen.suites import Item

HOLE_RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5)
EACH = 10
"""Instances of a subset, a number of agents, a map size and a hole ratio."""


@pytest.fixture(scope="module")
def suite() -> list[Item]:
    return load_suite()


def cell(item: Item) -> tuple[str, int, int]:
    problem = item.instance.problem
    return item.groups["wait subset"], problem.num_agents, problem.size


def test_the_suite_has_the_shape_of_the_public_benchmark(suite: list[Item]):
    assert Counter(map(cell, suite)) == {
        (subset, agents, size): 50 for subset in SUBSETS for agents in AGENTS for size in range(agents, 11)
    }
    assert len(suite) == 3 * (400 + 350 + 300)


def test_every_subset_has_its_share_of_waits_to_within_one_instance(suite: list[Item]):
    in_cell = Counter(cell(item) for item in suite if item.instance.solution.wait_required)
    assert all(abs(number - SUBSETS[subset] * 50) <= 1 for (subset, _, _), number in in_cell.items())
    for subset, share in SUBSETS.items():
        waits = sum(number for (name, _, _), number in in_cell.items() if name == subset)
        assert abs(waits - share * 1050) <= 0.5


def test_names_and_columns_tell_subset_and_hole_ratio(suite: list[Item]):
    ratios = pq.read_table(SUITE, columns=["hole_ratio"]).column(0).to_pylist()
    assert Counter(ratios) == dict.fromkeys(HOLE_RATIOS, 630)
    for item, ratio in zip(suite, ratios, strict=True):
        problem = item.instance.problem
        assert len(problem.holes) == int(ratio * problem.size**2 + 1e-9)
        assert item.name.startswith(
            f"{item.groups['wait subset']}/{problem.num_agents}ag_{problem.size}x{problem.size}_hr{ratio}_00"
        )
    assert suite[0].name == "wr_025/3ag_3x3_hr0.1_000"
    assert len({item.name for item in suite}) == len(suite)


def test_no_two_instances_are_the_same_up_to_symmetry(suite: list[Item]):
    ids = [identity(item.instance.problem) for item in suite]
    assert ids == [item.instance.problem.id for item in suite]
    assert len(set(ids)) == 3150
    assert set().union(*map(suite_identities, AGENTS)) == set(ids)


def test_stored_solutions_are_optimal_and_labels_are_those_of_the_solver(suite: list[Item]):
    some = suite[::25]
    for item, solution in zip(some, solve_many([item.instance.problem for item in some]), strict=True):
        stored = item.instance.solution
        assert solution is not None
        assert stored.model_dump(exclude={"plan", "makespan"}) == solution.model_dump(
            exclude={"plan", "makespan"}
        )
        assert verify_plan(item.instance.problem, stored.plan, solution.sum_of_costs).optimal


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
LONG = {(5, 7)}
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


def test_a_changed_or_missing_file_is_refused_wherever_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    content = bytearray(SUITE.read_bytes())
    monkeypatch.setattr(benchmark, "SUITE", tmp_path / "suite.parquet")
    monkeypatch.setattr(benchmark, "suite_identities", suite_identities.__wrapped__)
    with pytest.raises(DataError, match=r"suite.parquet: no such file; install envwright again"):
        benchmark.suite_identities(4)
    assert benchmark.suite_identities(2) == frozenset(), "two agents do not need it"
    content[1000] ^= 1
    (tmp_path / "suite.parquet").write_bytes(content)
    for read in (load_suite, lambda: benchmark.suite_identities(3)):
        with pytest.raises(
            DataError, match=r"its SHA-256 is .* the benchmark suite was changed, install envwright again"
        ):
            read()


def test_a_data_set_without_names_and_subsets_is_one_subset(suite: list[Item], tmp_path: Path):
    instances = [item.instance for item in suite[:3]]
    write_dataset(tmp_path / "d.parquet", instances, PromptStyle.BOARD, {})
    items = read_items(tmp_path / "d.parquet")
    assert [item.name for item in items] == [instance.problem.id for instance in instances]
    assert all(item.groups == {"agents": "3 agents", "map size": "3x3"} for item in items)
