"""Spaces of environment configs: strata, their knobs, and the words for both."""

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from envgen.config import SHARE, EnvConfig, Part
from envgen.frozen import Frozen


class Label(Frozen):
    """Property of some instances; a knob sets the share of instances that have it."""

    name: str
    condition: str
    """Completes "by whether ...": `a digit is carried`."""
    present: str = Field(default_factory=lambda data: f"where {data['condition']}")
    """Names the instances with the property: `where a digit is carried`."""
    absent: str = "where none is"
    """Names the instances without it."""


class Knob(Frozen):
    """Bounded number that an engineer sets for a stratum."""

    name: str
    """Name in configs: `carry_ratio`."""
    word: str = Field(default_factory=lambda data: data["name"].removesuffix("_ratio").replace("_", " "))
    """Name in texts, in the plural: `carries`."""
    low: float = 0
    high: float = 1
    default: float = Field(default_factory=lambda data: data["low"])
    """Value of a stratum that a config does not name."""
    step: float = Field(gt=0)
    """One level, for engineers that move a knob by levels."""
    whole: bool = False
    """Whether it is a whole number of an instance: of 1.5 half of the instances get 1, the others 2."""
    description: str
    """Completes "NAME is ...": `the share of the sums in which a digit is carried`."""
    digits: int | None = Field(default=None, ge=0, le=6)
    """Decimals of the ends of the range in texts; as few as needed if None."""
    label: Label | None = None
    """Label whose share the knob sets; None for a knob of all instances."""
    limits: tuple[float, float] | None = None
    """Widest range that any space of the environment allows; low and high if None."""

    @property
    def widest(self) -> tuple[float, float]:
        """Limits, or the range if there are none."""
        return self.limits or (self.low, self.high)

    @property
    def range(self) -> str:
        """Both ends: `0 to 1`."""
        kind = "g" if self.digits is None else f".{self.digits}f"
        return f"{self.low:{kind}} to {self.high:{kind}}"

    def clamped(self, value: float) -> float:
        """Return the nearest value within the range; never -0.0."""
        return min(max(value, self.low), self.high) + 0.0


class Stratum(Frozen):
    """Difficulty level or kind of task: rates are counted by it, and it has its own knobs."""

    name: str = Field(pattern=r"^[A-Za-z0-9_]+$")
    """Name in configs and files: `3`."""
    label: str = Field(default_factory=lambda data: data["name"].replace("_", " "))
    """Name in texts: `3 terms`."""
    knobs: tuple[Knob, ...] = ()

    @property
    def absent(self) -> Part:
        """Part of a config that does not name the stratum: no share, default knobs."""
        return Part(**{SHARE: 0.0, **{knob.name: knob.default for knob in self.knobs}})  # type: ignore[arg-type]


class Space(Frozen):
    """Legal environment configs, and the words for what they hold."""

    strata: tuple[Stratum, ...] = Field(min_length=1)
    """From the easiest to the hardest, where the order is known."""
    key: str = "strata"
    """Key of the strata in configs: `terms`."""
    noun: str
    """What a stratum is, in the singular: `kind of sum`."""
    task: str
    """Completes "a language model that ...": `adds whole numbers`."""
    guideline: str
    """How to design a good config, in a few sentences."""
    categories: tuple[str, ...] = Field(min_length=1)
    """Failure categories; the first is for an unreadable answer."""
    fault: str | None = None
    """Category of answers that could not be scored; training and evaluation stop above 1 % of them."""
    identity: Literal["canonical", "textual"] = "canonical"
    """Whether equal ids stand for equal problems, or only for equal texts."""
    terms: tuple[str, ...] = ()
    """Reward components of partial progress, each from 0 to 1."""
    measures: dict[str, str] = {}
    """Measure of valid answers -> sentence with its mean: `valid plans cost %.2f more on average`."""
    best: str | None = None
    """Word for the best of valid answers, `optimal`; None if all valid answers are equal."""

    @model_validator(mode="after")
    def _names_are_distinct(self) -> Self:
        if len(set(self.names)) < len(self.strata):
            raise ValueError(f"strata {list(self.names)}: a name is given twice")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the strata, in order."""
        return tuple(stratum.name for stratum in self.strata)

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """Each knob once, as in the first stratum that has it."""
        knobs: dict[str, Knob] = {}
        for stratum in self.strata:
            knobs |= {knob.name: knob for knob in stratum.knobs if knob.name not in knobs}
        return tuple(knobs.values())

    @property
    def asked(self) -> tuple[Knob, ...]:
        """Knobs that set the share of a label."""
        return tuple(knob for knob in self.knobs if knob.label)

    def __getitem__(self, name: str) -> Stratum:
        """Return a stratum by its name; KeyError if there is none."""
        return {stratum.name: stratum for stratum in self.strata}[name]

    def label(self, name: str) -> str:
        """Return the label of a stratum; the name itself if the space has no such stratum."""
        return next((stratum.label for stratum in self.strata if stratum.name == name), name)

    def named(self, names: list[str]) -> str:
        """Return the labels of strata, in this order: `2 terms, 3 terms`."""
        return ", ".join(map(self.label, names))

    def parts(self, config: EnvConfig) -> dict[str, Part]:
        """Return the part of each stratum in a config, also of those that it does not name."""
        return {stratum.name: config.strata.get(stratum.name) or stratum.absent for stratum in self.strata}

    def config(self, parts: Mapping[str, Part]) -> EnvConfig:
        """Return the config of parts by stratum; ValidationError if their shares do not sum to 1."""
        return EnvConfig(strata=dict(parts), key=self.key)

    def check(self, config: EnvConfig) -> None:
        """Raise ValueError with the first field of a config that is outside of the space."""
        if tuple(config.strata) != self.names:
            have, want = list(config.strata), list(self.names)
            raise ValueError(f"{config.key}: names {have}, the space {want}; name the same, in this order")
        for name, part in config.strata.items():
            knobs, where = {knob.name: knob for knob in self[name].knobs}, f"{self.key}.{name}"
            if odd := sorted(part.knobs.keys() ^ knobs.keys()):
                raise ValueError(f"{where}.{odd[0]}: is missing or unknown; the knobs are {', '.join(knobs)}")
            for knob in knobs.values():
                if not knob.low <= part[knob.name] <= knob.high:
                    outside = f"{part[knob.name]:g} is outside of the space, {knob.low:g} to {knob.high:g}"
                    raise ValueError(f"{where}.{knob.name}: {outside}; move it inside")


def plural(noun: str) -> str:
    """Several of a noun that a space has: `kinds of sum`."""
    head, of, rest = noun.partition(" of ")
    return f"{head.removesuffix('s')}s{of}{rest}"
