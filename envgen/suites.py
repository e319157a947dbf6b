"""What a family has policies judged on besides validation sets; an optional attribute of a `TaskFamily`."""

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field

from envgen.errors import ConfigError
from envgen.family import TaskFamily
from envgen.frozen import Frozen


class TestSuite(Frozen):
    """What the final policies of a study are tested on, in the words of a family: its attribute `test_suite`.

    The file of a study has the fields, as `test`.
    """

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
