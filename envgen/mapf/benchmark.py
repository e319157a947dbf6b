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


MODELS: dict[str, dict[str, str]] = {
    model: dict(zip(("3 agents", "4 agents", "5 agents"), rates, strict=True))
    for model, rates in {
        "Qwen3-4B base": ("14.83 / 14.00", "3.43 / 3.05", "1.44 / 1.22"),
        "Qwen3-4B + GRPO, random config": ("40.42 / 26.08", "26.67 / 16.10", "15.11 / 9.11"),
        "Qwen3-4B + GRPO + engineer": ("51.67 / 31.67", "33.14 / 21.33", "18.67 / 11.00"),
        "Kimi-K2.5": ("46.17 / 29.25", "26.95 / 17.90", "13.47 / 8.78"),
        "GPT-5.4": ("32.50 / 20.58", "17.05 / 10.86", "9.11 / 6.00"),
        "Grok-4.2": ("33.42 / 21.00", "23.43 / 15.33", "12.89 / 8.78"),
        "Gemini-3.1-Pro": ("24.50 / 15.33", "12.95 / 10.10", "4.78 / 3.56"),
    }.items()
}
"""Model -> number of agents -> valid and optimal rate that arXiv 2606.17682 publishes, without intervals, for
the authors' instances. The paper's cells of map sizes average to other valid rates in two places: 14.22 for
Kimi-K2.5 with 5 agents, 13.05 for Gemini-3.1-Pro with 4."""

VARIANTS = {
    "no redesign": {"all": "28.61"},
    "V1": {"wr_025": "25.2", "wr_050": "18.4", "wr_075": "14.9", "all": "19.50"},
    "V2": {"wr_025": "36.6", "wr_050": "26.9", "wr_075": "19.7", "all": "27.73"},
    "V3": {"wr_025": "38.8", "wr_050": "31.0", "wr_075": "23.9", "all": "31.23"},
    "V4": {"wr_025": "41.4", "wr_050": "33.6", "wr_075": "25.2", "all": "33.40"},
    "V5": {"wr_025": "32.6", "wr_050": "24.6", "wr_075": "19.7", "all": "25.63"},
    "V6": {"wr_025": "45.2", "wr_050": "35.7", "wr_075": "27.3", "all": "36.06"},
    "V6, all training details": {"all": "27.11"},
    "V6, untrained engineer": {"all": "31.00"},
}
"""Qwen3-4B + GRPO with the engineer's context variants: name -> wait subset, or `all` -> valid rate."""

BENCHMARK = Benchmark(
    digest=SUITE_SHA256,
    suite=load_suite,
    read=read_items,
    solved=solve_rows,
    public="LARK-Lab/MAPF-FrozenLake-Benchmark",
    configs=tuple(CONFIG_PREFIX + subset for subset in SUBSETS),
    tables=(("agents", "wait subset"), ("map size", "agents")),
    mark="published, on the authors' instances, not ours",
    published=(
        Published("Valid / optimal %, beside published rates", "agents", True, MODELS),
        Published(
            "Valid % by wait subset, beside published context variants", "wait subset", False, VARIANTS
        ),
    ),
)
