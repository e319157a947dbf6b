"""Benchmarks that any model can be compared by: the attribute `benchmark` of an environment."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from envgen.environment import Environment
from envgen.errors import ConfigError

ALL = "all"
"""Label of all groups of a kind together."""


class Item(NamedTuple):
    """An instance of a benchmark."""

    instance: Any
    name: str
    groups: dict[str, str]
    """Kind of group -> label of the instance's group: `{"terms": "3 terms"}`."""


class Published(NamedTuple):
    """Rates that others published for the groups of a kind, in %."""

    title: str
    kind: str
    optimal: bool
    """Whether optimal rates stand beside the valid ones."""
    rates: dict[str, dict[str, str]]
    """Model -> label of a group, or `ALL` -> rates as they were published."""

    @property
    def labels(self) -> set[str]:
        """Labels of the groups with rates."""
        return {label for rates in self.rates.values() for label in rates}


@dataclass(frozen=True)
class Benchmark:
    """A suite of instances in groups, other sources of such instances, and published rates."""

    digest: str
    """Digest of the suite."""
    suite: Callable[[], list[Item]]
    """Return the items of the suite."""
    read: Callable[[Path], list[Item]]
    """Return the items of a data set; DataError as `envgen.dataset.read_dataset`."""
    solved: Callable[[Iterable[tuple[str, Any]]], list[Item]]
    """Return the items of public rows (place, row); DataError names the row."""
    public: str
    """Hub id of the public data set."""
    configs: tuple[str, ...]
    """Configs of the public data set; a row has its config as `subset`."""
    tables: tuple[tuple[str, str], ...]
    """Kinds of group in rows and in columns."""
    mark: str
    """Note beside published rates."""
    published: Callable[[], list[Published]]
    """Return published rates."""


def benchmark_of(environment: Environment) -> Benchmark:
    """Return the benchmark of an environment; ConfigError if it has none."""
    if environment.benchmark is None:
        raise ConfigError(f"the environment {environment.name} has no benchmark; take another")
    return environment.benchmark
