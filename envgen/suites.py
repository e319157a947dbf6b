"""What a family has policies judged on besides validation sets: optional attributes of a `TaskFamily`.

`test_suite` is a class, what studies test their policies on, and `benchmark` what any model is compared by.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from pydantic import Field

from envgen.errors import ConfigError
from envgen.family import TaskFamily
from envgen.frozen import Frozen


class TestSuite(Frozen):
    """What the final policies of a study are tested on; the file of a study has the fields, as `test`."""

    __test__ = False
    noun: ClassVar[str]
    """What its instances are, in the plural: `sums`."""
    scores: ClassVar[dict[str, str]]
    """What is told of configs: a knob, or `Space.short` for the mean of strata that are numbers -> words."""
    followed: ClassVar[tuple[str, str]]
    """The knob that is shown by stratum beside the shares, and the words for it in a heading."""
    answer_tokens: int = Field(ge=8)
    """Longest answer."""

    @abstractmethod
    def draw(self) -> list[Any]:
        """The instances, the same on every machine, none of those that the family reserves.

        SamplingError if there are too few.
        """

    @abstractmethod
    def check(self, options: Mapping[str, Any], strata: Collection[str]) -> None:
        """ValueError names the field that asks for strata which a family with these options is trained on."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What is in it, as a part of a sentence."""

    @staticmethod
    @abstractmethod
    def trained(options: Mapping[str, Any]) -> str:
        """Completes "training is on ...": what a family with these options draws."""

    @staticmethod
    @abstractmethod
    def parts(instances: Sequence[Any]) -> list[tuple[str, list[bool]]]:
        """Parts of a test that have rates of their own: name, and which instances are in it."""

    @staticmethod
    def registered(preset: dict[str, Any]) -> dict[str, Any]:
        """The file of a preset in the words in which studies of the family are registered."""
        return preset


def test_suite_of(family: TaskFamily) -> type[TestSuite]:
    """The test suites of a family; ConfigError if it has none."""
    found = getattr(family, "test_suite", None)
    if found is None:
        raise ConfigError(f"the family {family.name} has no test suite, which a study needs; take another")
    return found


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


def benchmark_of(family: TaskFamily) -> Benchmark:
    """The benchmark of a family; ConfigError if it has none."""
    found = getattr(family, "benchmark", None)
    if found is None:
        raise ConfigError(f"the family {family.name} has no benchmark; take another")
    return found
