"""The benchmark suite: 3,150 instances shaped as the public MAPF-FrozenLake benchmark, from our own sampler.

Three wait subsets, each with 3 agents on map sizes 3 to 10, 4 agents on 4 to 10 and 5 agents on 5 to 10, 50
instances a cell: 10 of each hole ratio from 0.1 to 0.5. The authors' instances are others
(`solve_rows` reads those). All 3,150 differ up to symmetry and the order of agents, and
no training or validation instance is one of them: see `suite_identities`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from envgen.dataset import NAME, column_names, read_dataset, read_table, write_dataset
from envgen.environment import Source
from envgen.errors import DataError
from envgen.files import file_digest
from envgen.mapf.problem import MAX_SIZE, Instance, identity
from envgen.mapf.problem_files import BenchmarkRow, parsed
from envgen.mapf.prompts import PromptStyle
from envgen.mapf.sampler import draw_size
from envgen.mapf.solver.solve import solve_many

SUBSETS = {"wr_025": 0.25, "wr_050": 0.5, "wr_075": 0.75}
"""Wait subset -> share of its instances whose every optimal plan waits."""
AGENTS = (3, 4, 5)
HOLE_RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5)
PER_HOLE_RATIO = 10
"""Instances of a subset, a number of agents, a map size and a hole ratio."""
CONFIG_PREFIX = "benchmark_"
"""The configs of the public data set are this and the name of a subset."""
SOLVER_BATCH = 256
EVERYTHING = "all"
"""The subset of instances that belong to none of `SUBSETS`."""
SEED = 2026
SUITE = Path(__file__).parent / "benchmark.parquet"
SUITE_SHA256 = "738d0f442dcf4857e889f833332160568645feffd975d3fcda72db3e73e58bff"
"""Of the file; `write_suite` draws it again and returns the digest."""
SUBSET = pa.field("subset", pa.string(), nullable=False, metadata={"doc": "wait subset"})
HOLE_RATIO = pa.field(
    "hole_ratio",
    pa.float64(),
    nullable=False,
    metadata={"doc": "requested share of cells that are holes, rounded down to whole cells"},
)


class Item(NamedTuple):
    """An instance of a benchmark, with the id and the wait subset that it has there."""

    instance: Instance
    """`problem.id` is the canonical identity."""
    name: str
    subset: str

    @property
    def groups(self) -> dict[str, str]:
        """Wait subset, if it is of one, number of agents and map size."""
        agents, size = self.instance.problem.num_agents, self.instance.problem.size
        subset = {} if self.subset == EVERYTHING else {"wait subset": self.subset}
        return subset | {"agents": f"{agents} agents", "map size": f"{size}x{size}"}


def sizes_of(agents: int) -> range:
    """Return the map sizes of the suite with that many agents."""
    return range(agents, MAX_SIZE + 1)


def build(agents: Sequence[int], sizes: Sequence[int]) -> Iterator[tuple[Item, float]]:
    """Draw the items of the suite with these numbers of agents and map sizes, each with its hole ratio.

    Boards of other map sizes or numbers of agents cannot be the same, so this is that part of the whole
    suite. Wait labels are rounded over a whole subset.
    """
    seen: set[str] = set()
    classes = [(count, size) for count in AGENTS for size in sizes_of(count)]
    for subset, wait_ratio in SUBSETS.items():
        for index, ((count, size), hole_ratio) in enumerate(product(classes, HOLE_RATIOS)):
            if count not in agents or size not in sizes:
                continue
            before, after = (int(wait_ratio * PER_HOLE_RATIO * number + 0.5) for number in (index, index + 1))
            knobs = {"hole_ratio": hole_ratio, "wait_ratio": (after - before) / PER_HOLE_RATIO}
            source = Source(SEED, purpose=f"benchmark-{subset}-{hole_ratio}")
            drawn, _ = draw_size(size, knobs, PER_HOLE_RATIO, count, source, frozenset(seen))
            seen |= {instance.id for instance in drawn}
            for number, instance in enumerate(drawn):
                name = f"{subset}/{count}ag_{size}x{size}_hr{hole_ratio}_{number:03d}"
                yield Item(instance, name, subset), hole_ratio


def write_suite(path: Path = SUITE) -> str:
    """Draw the suite in minutes and write it; return the file's digest, which belongs into SUITE_SHA256."""
    items, hole_ratios = zip(*build(AGENTS, range(MAX_SIZE + 1)), strict=True)
    instances, names, subsets = zip(*items, strict=True)
    drawn = {"seed": SEED, "subsets": SUBSETS, "agents": AGENTS}
    origin = {"benchmark": {**drawn, "hole_ratios": HOLE_RATIOS, "each": PER_HOLE_RATIO}}
    extra = [(NAME, names), (SUBSET, subsets), (HOLE_RATIO, hole_ratios)]
    write_dataset(path, instances, PromptStyle.COMPACT, origin, extra=extra)
    return file_digest(path)


def load_suite() -> list[Item]:
    """The shipped suite; DataError if its file is missing or was changed."""
    _check_suite()
    return read_items(SUITE)


def read_items(path: Path) -> list[Item]:
    """A data set with the names and subsets that its file has.

    Without columns for them the name is the identity and the subset EVERYTHING.
    """
    instances = read_dataset(path)
    columns = column_names(path)
    names = _column(path, NAME) if NAME.name in columns else [instance.problem.id for instance in instances]
    subsets = _column(path, SUBSET) if SUBSET.name in columns else [EVERYTHING] * len(instances)
    return [Item(*row) for row in zip(instances, names, subsets, strict=True)]


def _column(path: Path, field: pa.Field) -> list[str]:
    return read_table(path, pa.schema([field])).column(0).to_pylist()


def solve_rows(
    rows: Iterable[tuple[str, Any]], source: str, progress: Callable[[int], None] | None
) -> list[Item]:
    """Return rows of the public benchmark as solved instances with canonical identities.

    Each row comes with the place that messages name. `progress` gets the number of solved rows. DataError for
    a row that is wrong or has no plan.
    """
    read = [(where, parsed(BenchmarkRow.model_validate, value, where)) for where, value in rows]
    problems = [parsed(lambda row: row.problem(), row, where) for where, row in read]
    if not problems:
        raise DataError(f"{source}: holds no row; expected rows sample_id, num_agents, text")
    items: list[Item] = []
    for first in range(0, len(read), SOLVER_BATCH):
        batch = [p.model_copy(update={"id": identity(p)}) for p in problems[first : first + SOLVER_BATCH]]
        for problem, solution in zip(batch, solve_many(batch), strict=True):
            where, row = read[len(items)]
            if solution is None:
                raise DataError(f"{where}: {row.sample_id!r} has no plan to compare costs with; leave it out")
            subset = row.subset.removeprefix(CONFIG_PREFIX) or EVERYTHING
            items.append(Item(Instance(problem=problem, solution=solution), row.sample_id, subset))
        if progress:
            progress(len(items))
    return items


def suite_identities(agents: int) -> frozenset[str]:
    """Canonical identities of the suite's instances with that many agents; none for two agents.

    Training and validation must not see them.
    """
    return _identities()[agents] if agents in AGENTS else frozenset()


@cache
def _identities() -> dict[int, frozenset[str]]:
    _check_suite()
    ids = _column(SUITE, pa.field("id", pa.string(), nullable=False))
    cells = [name.partition("/")[2] for name in _column(SUITE, NAME)]
    return {
        agents: frozenset(id for id, cell in zip(ids, cells, strict=True) if cell.startswith(f"{agents}ag_"))
        for agents in AGENTS
    }


def _check_suite() -> None:
    try:
        digest = file_digest(SUITE)
    except FileNotFoundError:
        raise DataError(f"{SUITE}: no such file; install envwright again") from None
    if digest != SUITE_SHA256:
        raise DataError(
            f"{SUITE}: its SHA-256 is {digest}, expected {SUITE_SHA256}; the benchmark suite was changed, "
            "install envwright again"
        )
