"""The benchmark suite: 3,150 instances shaped as the public MAPF-FrozenLake benchmark, from our own sampler.

Three wait subsets, each with 3 agents on map sizes 3 to 10, 4 agents on 4 to 10 and 5 agents on 5 to 10, 50
instances a cell: 10 of each hole ratio from 0.1 to 0.5. All differ up to symmetry and the order of agents.
The authors' instances are others: `solve_rows` reads them.
"""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, StrictInt

from envgen.dataset import read_dataset, read_table
from envgen.errors import DataError, naming
from envgen.mapf.problem import Instance, from_text, identity
from envgen.mapf.solver.solve import solve_many
from envgen.suites import Benchmark, Item, Published
from envgen.yaml_files import read_yaml

SUBSETS = {"wr_025": 0.25, "wr_050": 0.5, "wr_075": 0.75}
"""Wait subset -> share of its instances whose every optimal plan waits."""
AGENTS = (3, 4, 5)
CONFIG_PREFIX = "benchmark_"
"""The configs of the public data set are this and the name of a subset."""
EVERYTHING = "all"
"""The subset of instances that belong to none of `SUBSETS`."""
SUITE = Path(__file__).parent / "benchmark.parquet"
SUITE_SHA256 = "973305362bbdb0cba2036278f32e1a9040686d94adebe7c235780e7e074fedd1"


class BenchmarkRow(BaseModel):
    """A row of the public benchmark; other columns are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    sample_id: str = Field(max_length=200)
    num_agents: StrictInt
    text: str
    subset: str = Field(default="", max_length=40)
    """Wait subset; not a column of the public data set, which has a config for each."""


def item_of(instance: Instance, name: str = "", subset: str = EVERYTHING) -> Item:
    """Return an instance, whose id is its canonical identity, with the name and wait subset that it has."""
    agents, size = instance.problem.num_agents, instance.problem.size
    groups = {} if subset == EVERYTHING else {"wait subset": subset}
    groups |= {"agents": f"{agents} agents", "map size": f"{size}x{size}"}
    return Item(instance, name or instance.id, groups)


def load_suite() -> list[Item]:
    """Return the shipped suite."""
    return [*map(item_of, read_dataset(SUITE), _column("name"), _column("subset"))]


def read_items(path: Path) -> list[Item]:
    """Return a data set with identities as names, without wait subsets."""
    return [item_of(instance) for instance in read_dataset(path)]


def _column(name: str) -> list[str]:
    return read_table(SUITE, pa.schema([(name, pa.string())])).column(0).to_pylist()


def solve_rows(rows: Iterable[tuple[str, Any]]) -> list[Item]:
    """Return rows of the public benchmark as solved instances with canonical identities. Each row comes with
    the place that messages name. DataError for a row that is wrong or has no plan."""
    read, items = [], list[Item]()
    for where, value in rows:
        with naming(where):
            row = BenchmarkRow.model_validate(value)
            problem = from_text(row.text)
            if problem.num_agents != row.num_agents:
                count = f"the text places {problem.num_agents} agents"
                raise ValueError(f"num_agents is {row.num_agents}, but {count}; correct one of them")
            read.append((where, row, problem.model_copy(update={"id": identity(problem)})))
    solutions = solve_many([problem for _, _, problem in read])
    for (where, row, problem), solution in zip(read, solutions, strict=True):
        if solution is None:
            raise DataError(f"{where}: {row.sample_id!r} has no plan to compare costs with; leave it out")
        subset = row.subset.removeprefix(CONFIG_PREFIX) or EVERYTHING
        items.append(item_of(Instance(problem=problem, solution=solution), row.sample_id, subset))
    return items


@cache
def suite_identities(agents: int) -> frozenset[str]:
    """Return the canonical identities of the suite's instances with that many agents; none for two agents.
    Training and validation must not see them."""
    rows = zip(_column("id"), _column("name"), strict=True) if agents in AGENTS else ()
    return frozenset(id for id, name in rows if f"/{agents}ag_" in name)


def published_rates() -> list[Published]:
    """Return the rates that arXiv 2606.17682 publishes."""
    tables = read_yaml(SUITE.with_name("published.yaml"))
    return [Published(title, **fields) for title, fields in tables.items()]


BENCHMARK = Benchmark(
    digest=SUITE_SHA256,
    suite=load_suite,
    read=read_items,
    solved=solve_rows,
    public="LARK-Lab/MAPF-FrozenLake-Benchmark",
    configs=tuple(CONFIG_PREFIX + subset for subset in SUBSETS),
    tables=(("agents", "wait subset"), ("map size", "agents")),
    mark="published, on the authors' instances, not ours",
    published=published_rates,
)
