"""The environment config: what the generator draws, and all that an engineer may change."""

from typing import Any, Self

from pydantic import ConfigDict, Field, model_serializer, model_validator

from envgen.errors import naming
from envgen.frozen import Frozen

SUM_TOLERANCE = 1e-6
SHARE = "data_ratio"
"""The number that every stratum has; the others are its knobs."""


class Part(Frozen):
    """What is drawn of one stratum: its share of the instances, and its knobs, numbers by their names."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)
    __pydantic_extra__: dict[str, float]  # pyright: ignore[reportIncompatibleVariableOverride]
    data_ratio: float = Field(ge=0, le=1)
    """Share of the instances that are of this stratum; the shares of all strata sum to 1."""

    @property
    def knobs(self) -> dict[str, float]:
        """The knobs, in the order given."""
        return dict(self.__pydantic_extra__)

    def __getitem__(self, name: str) -> float:
        """A knob, or `data_ratio`; KeyError if it has none of this name."""
        return self.data_ratio if name == SHARE else self.__pydantic_extra__[name]

    def get(self, name: str) -> float | None:
        """The same; None if it has none of this name."""
        return self.data_ratio if name == SHARE else self.__pydantic_extra__.get(name)


class EnvConfig(Frozen):
    """Environment config: stratum -> `Part`, as JSON under one key, what the environment calls its strata.

    `{"terms": {"3": {"data_ratio": 1.0, "digits": 2, "carry_ratio": 0.5}}}`
    """

    strata: dict[str, Part] = Field(min_length=1)
    key: str = "strata"

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        if not isinstance(value, dict) or len(value) != 1:
            return value
        ((key, parts),) = value.items()
        if not isinstance(key, str) or not isinstance(parts, dict):
            return value
        if key == "strata" and all(isinstance(name, str) for name in parts):  # as the model has them
            return value
        strata = {}
        for name, part in parts.items():
            if str(name) in strata:
                raise ValueError(f"{key}.{name}: stands twice, as a number and as a text; remove one of them")
            with naming(f"{key}.{name}", ValueError):
                strata[str(name)] = Part.model_validate(part)
        return {"strata": strata, "key": key}

    @model_validator(mode="after")
    def _shares_sum_to_one(self) -> Self:
        total = sum(part.data_ratio for part in self.strata.values())
        if abs(total - 1) > SUM_TOLERANCE:
            raise ValueError(f"data_ratio sums to {total:.6g} over all {self.key}; make the shares sum to 1")
        return self

    @model_serializer
    def _written(self) -> dict[str, Any]:
        parts = {name: {SHARE: part.data_ratio, **part.knobs} for name, part in self.strata.items()}
        return {self.key: parts}

    @property
    def shares(self) -> dict[str, float]:
        """Stratum -> share of the data, scaled to sum to 1."""
        total = sum(part.data_ratio for part in self.strata.values())
        return {name: part.data_ratio / total for name, part in self.strata.items()}

    def moved(self, other: Self) -> float:
        """Return the share of the data, 0 to 1, that another config gives to other strata."""
        before, after = self.shares, other.shares
        names = dict.fromkeys([*before, *after])
        return min(sum(abs(after.get(name, 0.0) - before.get(name, 0.0)) for name in names) / 2, 1.0)

    def counts(self, total: int) -> dict[str, int]:
        """Return the instances of each stratum for a data set of `total`, by largest remainder; of equal
        remainders the first counts."""
        exact = {name: share * total for name, share in self.shares.items()}
        counts = {name: int(value + SUM_TOLERANCE) for name, value in exact.items()}
        by_remainder = sorted(exact, key=lambda name: counts[name] - exact[name])
        for name in by_remainder[: total - sum(counts.values())]:
            counts[name] += 1
        return counts
