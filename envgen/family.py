"""The contract of a task family: an environment that instances are drawn from, and that judges answers.

A family is found by its name through the entry points `envwright.families` (`envgen.families`); a preset
names it with its options. What is written once for all families lies over its `Space`: which strata there
are, which knobs each has, and the words for both.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, Self

import pyarrow as pa
from pydantic import Field, model_validator

from envgen.config import SHARE, EnvConfig, Part
from envgen.frozen import Frozen


class Label(Frozen):
    """A property that an instance has or has not; a knob asks for the share of instances that have it."""

    name: str
    asks: str
    """Completes "by whether ...": `a digit is carried`."""
    present: str
    """`where a digit is carried`."""
    absent: str
    """`where none is`."""


class Knob(Frozen):
    """A bounded number that an engineer sets for a stratum."""

    name: str
    """As configs have it: `carry_ratio`."""
    word: str = Field(default_factory=lambda given: given["name"])
    """As texts have it, in the plural: `carries`; the name if left out."""
    low: float = 0
    high: float = 1
    default: float = Field(default_factory=lambda given: given["low"])
    """Of a stratum that a config does not name; the low end if left out."""
    step: float = Field(gt=0)
    """One level, for engineers that move a knob by levels."""
    means: str
    """Completes "NAME is ...": `the share of the sums in which a digit is carried`."""
    brief: str = ""
    """The same in a few words; its range instead where there are none."""
    digits: int | None = Field(default=None, ge=0, le=6)
    """Digits of the ends of its range where it is written out; as few as it takes if left out."""
    label: Label | None = None
    """What the knob asks for the share of instances with; None for a knob that all instances follow."""
    limits: tuple[float, float] | None = None
    """Ends that no space of the family goes beyond, which answers may name; its range if left out."""

    @property
    def widest(self) -> tuple[float, float]:
        """The limits, or the range."""
        return self.limits or (self.low, self.high)

    @property
    def range(self) -> str:
        """Both ends, as `0 to 1`, or with `digits` after the point."""
        low, high = (
            f"{end:g}" if self.digits is None else f"{end:.{self.digits}f}" for end in (self.low, self.high)
        )
        return f"{low} to {high}"

    def clamped(self, value: float) -> float:
        """The nearest value within the range; never -0.0."""
        return min(max(value, self.low), self.high) + 0.0


class Stratum(Frozen):
    """What rates are counted by, and what has knobs of its own."""

    name: str = Field(pattern=r"^[A-Za-z0-9_]+$")
    """As configs and files have it: `3`."""
    label: str
    """As texts have it: `3 terms`."""
    knobs: tuple[Knob, ...] = ()

    @property
    def absent(self) -> Part:
        """What a config that does not name the stratum says of it: no share, and default knobs."""
        return Part(**{SHARE: 0.0, **{knob.name: knob.default for knob in self.knobs}})  # type: ignore[arg-type]


class Space(Frozen):
    """Which environment configs are legal, and the words for what they hold."""

    strata: tuple[Stratum, ...] = Field(min_length=1)
    """From the easiest to the hardest, where that is known."""
    key: str = "strata"
    """What configs call their strata: `terms`."""
    noun: str
    """What a stratum is, in the singular: `kind of sum`."""
    short: str = Field(default_factory=lambda given: given["noun"])
    """The same in a word: `kind`."""
    task: str
    """Completes "a language model that ...": what a policy of this family does."""
    brief: str = Field(default_factory=lambda given: given["task"])
    """The same in a few words."""
    guideline: str
    """What a good config does, in a few sentences, for a policy that was taught them."""
    categories: tuple[str, ...] = Field(min_length=1)
    """What an answer can get wrong, the first: nothing could be read in it."""
    fault: str | None = None
    """The category of answers that could not be judged; training and evaluation stop above 1 % of them."""
    identity: Literal["canonical", "textual"] = "canonical"
    """Whether equal ids stand for equal problems, or only for equal texts."""
    terms: tuple[str, ...] = ()
    """Partial progress of an answer, each from 0 to 1, that a reward may pay for."""
    measures: dict[str, str] = {}
    """Name -> sentence with one number, `valid plans cost %.2f more than the optimum on average`."""
    best: str | None = None
    """What a valid answer can be besides, `optimal`; None if all valid answers are equal."""
    mention: str = r"(?!)"
    """Regular expression of what reads like the label of a stratum, known or not."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(self.names)) < len(self.strata):
            raise ValueError(f"strata {list(self.names)}: a name is given twice")
        try:
            empty = re.compile(self.mention).match("")
        except re.error as error:
            raise ValueError(f"mention {self.mention!r}: is no regular expression: {error}") from None
        if empty:
            raise ValueError(f"mention {self.mention!r}: matches nothing at all; it has to match a label")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the strata, in order."""
        return tuple(stratum.name for stratum in self.strata)

    @property
    def labels(self) -> dict[str, str]:
        """Name of a stratum -> its label."""
        return {stratum.name: stratum.label for stratum in self.strata}

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """Every knob once, that of the first stratum that has it."""
        found: dict[str, Knob] = {}
        for stratum in self.strata:
            found |= {knob.name: knob for knob in stratum.knobs if knob.name not in found}
        return tuple(found.values())

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of all that a config says of a stratum: `data_ratio`, then the knobs."""
        return (SHARE, *(knob.name for knob in self.knobs))

    @property
    def asked(self) -> tuple[Knob, ...]:
        """The knobs that ask for a label."""
        return tuple(knob for knob in self.knobs if knob.label)

    def __getitem__(self, name: str) -> Stratum:
        """A stratum by its name; KeyError if there is none."""
        return {stratum.name: stratum for stratum in self.strata}[name]

    def label(self, name: str) -> str:
        """The label of a stratum; of one that is not in the space its name."""
        return self.labels.get(name, name)

    def part(self, config: EnvConfig, name: str) -> Part:
        """What a config says of a stratum of the space, also if it does not name it."""
        return config.strata.get(name) or self[name].absent

    def config(self, parts: Mapping[str, Part]) -> EnvConfig:
        """The config of these parts; ValidationError if their shares do not sum to 1."""
        return EnvConfig(strata=dict(parts), key=self.key)

    def check(self, config: EnvConfig) -> None:
        """ValueError names the first field of a config that is outside of the space."""
        if tuple(config.strata) != self.names:
            have, want = list(config.strata), list(self.names)
            raise ValueError(f"{config.key}: names {have}, the space {want}; name the same, in this order")
        for stratum in self.strata:
            part, where = config.strata[stratum.name], f"{config.key}.{stratum.name}"
            known = [knob.name for knob in stratum.knobs]
            if odd := sorted(part.knobs.keys() ^ set(known)):
                raise ValueError(f"{where}.{odd[0]}: is missing or unknown; the knobs are {', '.join(known)}")
            for knob in stratum.knobs:
                if not knob.low <= part[knob.name] <= knob.high:
                    raise ValueError(
                        f"{where}.{knob.name}: {part[knob.name]:g} is outside of the space, {knob.low:g} to "
                        f"{knob.high:g}; move it inside"
                    )


class Verdict(Protocol):
    """What a family says of one answer."""

    @property
    def valid(self) -> bool:
        """Whether it solves its instance."""
        ...

    @property
    def optimal(self) -> bool:
        """Whether it is the best as well."""
        ...

    @property
    def category(self) -> str | None:
        """What went wrong first, of `Space.categories`; None of a valid answer."""
        ...

    @property
    def detail(self) -> str:
        """One sentence for people."""
        ...

    @property
    def terms(self) -> dict[str, float]:
        """Partial progress, 0 to 1: `Space.terms`."""
        ...

    @property
    def outcome(self) -> str:
        """A few words for people, as `valid plan`."""
        ...


class Instance(Protocol):
    """One problem. Equal ones have equal ids, and only they."""

    @property
    def id(self) -> str:
        """Its identity, not a number of the draw."""
        ...

    @property
    def stratum(self) -> str:
        """Name of its stratum."""
        ...

    @property
    def labels(self) -> frozenset[str]:
        """Names of the labels that it has."""
        ...


class Vocabulary(NamedTuple):
    """What the tokenizer of a small policy keeps whole; the optional attribute `vocabulary` of a family."""

    pieces: str
    """Regular expression; each match is one piece."""
    fixed: tuple[str, ...] = ()
    """Pieces that are in the vocabulary however rare they are."""


class Source(NamedTuple):
    """What a draw is seeded by, besides the stratum: no two purposes share a random number."""

    seed: int
    stage: int = 0
    purpose: str = "train"


class Drawn(NamedTuple):
    """What was drawn of one stratum."""

    instances: list[Any]
    report: dict[str, Any]
    """What was asked and what was achieved, as JSON values."""
    line: str
    """The same for a log."""


class TaskFamily(Protocol):
    """An environment. Methods are pure functions of their arguments and the family's options."""

    name: str
    version: str
    """Part of every content key: another if seeds draw other instances, or answers are judged otherwise."""
    space: Space
    schema: pa.Schema
    """Columns of an instance in a data set; `id` and `prompt` are among them."""
    verdict_schema: pa.Schema
    """Columns of a verdict; `valid`, `optimal`, `category` and `detail` are among them."""

    @property
    def styles(self) -> tuple[str, ...]:
        """Ways to put an instance into words; the first is the usual one."""
        ...

    def draw(
        self,
        stratum: str,
        knobs: Mapping[str, float],
        count: int,
        source: Source,
        held_out: frozenset[str],
    ) -> Drawn:
        """Distinct instances, none of them held out; ShortageError if there are too few."""
        ...

    def check(self, config: EnvConfig, count: int) -> None:
        """ConfigError or SamplingError for a config of which it is known that no `count` can be drawn."""
        ...

    def reserved(self) -> frozenset[str]:
        """Ids that no data set may hold, as those of a benchmark."""
        ...

    def prompt(self, instance: Any, style: str) -> str:
        """The user message that poses an instance."""
        ...

    def reference(self, instance: Any) -> str:
        """A best answer."""
        ...

    def longest_prompt(self, style: str) -> str:
        """A prompt that is about as long as any."""
        ...

    def judge(self, instances: Sequence[Any], answers: Sequence[str]) -> list[Any]:
        """A verdict for each answer, in order; whatever the answer, no error."""
        ...

    def measures(self, instance: Any, verdict: Any) -> dict[str, float]:
        """`Space.measures` of an answer, those that it has."""
        ...

    def row(self, instance: Any, style: str) -> dict[str, Any]:
        """An instance as a row of `schema`."""
        ...

    def instance(self, row: Mapping[str, Any], where: str) -> Any:
        """The instance of a row; DataError names `where`, field and value."""
        ...

    def verdict_row(self, verdict: Any) -> dict[str, Any]:
        """A verdict as a row of `verdict_schema`."""
        ...

    def verdict(self, row: Mapping[str, Any]) -> Any:
        """The verdict of a row."""
        ...

    def picture(self, instance: Any, answer: str | None, verdict: Any | None) -> str | None:
        """An SVG of an instance with an answer to it; None if the family draws none."""
        ...
