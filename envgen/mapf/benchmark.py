"""The benchmark suite: 3,150 instances shaped as the public MAPF-FrozenLake benchmark, from our own sampler.

Three wait subsets, each with 3 agents on map sizes 3 to 10, 4 agents on 4 to 10 and 5 agents on 5 to 10, 50
instances a cell: 10 of each hole ratio from 0.1 to 0.5. The authors' instances are others
(`envgen.mapf.public_rows` reads those). All 3,150 differ up to symmetry and the order of agents, and
no training or validation instance is one of them: see `suite_identities`.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from envgen.dataset import NAME, column_names, read_dataset, read_table, write_dataset
from envgen.errors import DataError
from envgen.family import Source
from envgen.files import file_digest
from envgen.mapf.problem import MAX_SIZE, Instance
from envgen.mapf.prompts import PromptStyle
from envgen.mapf.rows import SCHEMA
from envgen.mapf.sampler import draw_size

SUBSETS = {"wr_025": 0.25, "wr_050": 0.5, "wr_075": 0.75}
"""Wait subset -> share of its instances whose every optimal plan waits."""
AGENTS = (3, 4, 5)
HOLE_RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5)
PER_HOLE_RATIO = 10
"""Instances of a subset, a number of agents, a map size and a hole ratio."""
EVERYTHING = "all"
"""The subset of instances that belong to none of `SUBSETS`."""
SEED = 2026
SUITE = Path(__file__).parent / "benchmark.parquet"
SUITE_SHA256 = "1e2953b8e77408f0e0329851ef840b96f3eb0d5750aa4e677e5cd50a11cf11ec"
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


class Block(NamedTuple):
    """Instances of the suite that are drawn together."""

    subset: str
    agents: int
    size: int
    hole_ratio: float
    with_wait: int
    """How many of its PER_HOLE_RATIO instances need a wait."""


def sizes_of(agents: int) -> range:
    """The map sizes of the suite with that many agents."""
    return range(agents, MAX_SIZE + 1)


def blocks() -> Iterator[Block]:
    """The blocks of the suite in order.

    Wait labels are rounded over a whole subset, so that its share is exact to one instance.
    """
    for subset, wait_ratio in SUBSETS.items():
        drawn = 0
        for agents in AGENTS:
            for size in sizes_of(agents):
                for hole_ratio in HOLE_RATIOS:
                    before, drawn = drawn, drawn + PER_HOLE_RATIO
                    with_wait = int(wait_ratio * drawn + 0.5) - int(wait_ratio * before + 0.5)
                    yield Block(subset, agents, size, hole_ratio, with_wait)


def build(
    agents: Sequence[int] = AGENTS, sizes: Sequence[int] = range(MAX_SIZE + 1)
) -> dict[Block, list[Instance]]:
    """The instances of the suite with these numbers of agents and map sizes, drawn anew.

    The others change nothing in them.
    """
    built: dict[Block, list[Instance]] = {}
    for block in blocks():
        if block.agents not in agents or block.size not in sizes:
            continue
        # Instances of other map sizes or numbers of agents cannot be the same.
        taken = frozenset(
            i.problem.id
            for other, drawn in built.items()
            if (other.agents, other.size) == (block.agents, block.size)
            for i in drawn
        )
        wait_ratio = block.with_wait / PER_HOLE_RATIO
        knobs = {"hole_ratio": block.hole_ratio, "wait_ratio": wait_ratio}
        source = Source(SEED, purpose=f"benchmark-{block.subset}-{block.hole_ratio}")
        built[block], _ = draw_size(block.size, knobs, PER_HOLE_RATIO, block.agents, source, taken)
    return built


def build_suite() -> list[Item]:
    """The whole suite, drawn anew, in the order of `blocks`.

    Takes minutes on one core, most of them on crowded boards of five agents.
    """
    return [
        Item(
            instance,
            f"{block.subset}/{block.agents}ag_{block.size}x{block.size}_hr{block.hole_ratio}_{number:03d}",
            block.subset,
        )
        for block, drawn in build().items()
        for number, instance in enumerate(drawn)
    ]


def write_suite(path: Path = SUITE) -> str:
    """Draw the suite and write it; returns the file's digest, which belongs into SUITE_SHA256."""
    suite = build_suite()
    hole_ratios = [block.hole_ratio for block in blocks() for _ in range(PER_HOLE_RATIO)]
    extra = [
        (NAME, [item.name for item in suite]),
        (SUBSET, [item.subset for item in suite]),
        (HOLE_RATIO, hole_ratios),
    ]
    drawn = {"seed": SEED, "subsets": SUBSETS, "agents": AGENTS}
    origin = {"benchmark": {**drawn, "hole_ratios": HOLE_RATIOS, "each": PER_HOLE_RATIO}}
    write_dataset(path, [item.instance for item in suite], PromptStyle.COMPACT, origin, extra=extra)
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


def suite_identities(agents: int) -> frozenset[str]:
    """Canonical identities of the suite's instances with that many agents; none for two agents.

    Training and validation must not see them.
    """
    return _identities()[agents] if agents in AGENTS else frozenset()


@cache
def _identities() -> dict[int, frozenset[str]]:
    _check_suite()
    columns = read_table(SUITE, pa.schema([SCHEMA.field("num_agents"), SCHEMA.field("id")])).to_pydict()
    rows = list(zip(*columns.values(), strict=True))
    return {agents: frozenset(name for number, name in rows if number == agents) for agents in AGENTS}


def _check_suite() -> None:
    try:
        found = file_digest(SUITE)
    except FileNotFoundError:
        raise DataError(f"{SUITE}: no such file; install envwright again") from None
    if found != SUITE_SHA256:
        raise DataError(
            f"{SUITE}: its SHA-256 is {found}, expected {SUITE_SHA256}; the benchmark suite was changed, "
            "install envwright again"
        )
