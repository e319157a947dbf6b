"""What any model can be compared by on a family: its optional attribute `benchmark`."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from envgen.environment import Environment
from envgen.errors import ConfigError

ALL = "all"
"""What all groups of a kind together are called."""


class Item(Protocol):
    """An instance of a benchmark."""

    @property
    def instance(self) -> Any:
        """The instance of the family."""
        ...

    @property
    def groups(self) -> dict[str, str]:
        """Kind of group -> label of the one that it is in, `{"terms": "3 terms"}`; all items name the kinds
        in the same order, some may leave one out."""
        ...


class Published(NamedTuple):
    """Rates that others published for the groups of a kind, in %."""

    title: str
    kind: str
    optimal: bool
    """Whether optimal rates stand beside the valid ones."""
    rates: dict[str, dict[str, str]]
    """Whose -> label of a group, or `ALL` -> rates as they were published."""

    @property
    def labels(self) -> set[str]:
        """The groups that it has rates of."""
        return {label for of in self.rates.values() for label in of}


class Curve(NamedTuple):
    """Published rates that are drawn beside ours: those of one column of the last of `Benchmark.tables`."""

    whose: str
    column: str
    rates: dict[str, tuple[float, float]]
    """Label of a row -> valid and optimal rate in %."""


@dataclass(frozen=True)
class Benchmark:
    """A suite of instances in groups, other sources of such instances, and what others published."""

    digest: str
    """Of the suite."""
    suite: Callable[[], list[Any]]
    """The items of the suite."""
    read: Callable[[Path], list[Any]]
    """The items of a data set; DataError as `envgen.dataset.read_dataset`."""
    solved: Callable[[Iterable[tuple[str, Any]], str, Callable[[int], None] | None], list[Any]]
    """The items of public rows, each with where it stands; their source and what is told how many are done
    follow. DataError names the row."""
    item: Callable[[Any], Any]
    """The item of an instance that is in no benchmark."""
    public: str
    """Hub id of the public data set."""
    configs: tuple[str, ...]
    """Its configs; a row that is read from it has its config as `subset`."""
    tables: tuple[tuple[str, str], ...]
    """Kinds of group that rates are shown by, in rows and in columns; the last one is drawn."""
    mark: str
    """Said wherever published rates are shown."""
    published: tuple[Published, ...]
    curve: Curve


def benchmark_of(family: Environment) -> Benchmark:
    """The benchmark of a family; ConfigError if it has none."""
    found = getattr(family, "benchmark", None)
    if found is None:
        raise ConfigError(f"the family {family.name} has no benchmark; take another")
    return found
