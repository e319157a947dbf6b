"""Sums of whole numbers as a task family: the worked example, with all that a family has to have.

family:
  name: sums
  options: {terms: [2, 3]}
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from envgen.config import EnvConfig
from envgen.errors import ConfigError
from envgen.families import Family
from envgen.family import Drawn, Knob, Label, ShortageError, Source, Space, Stratum
from envgen.frozen import Frozen
from envgen.plain import PlainInstance, PlainRows, PlainVerdict
from envgen.seeds import generator

MOST_DIGITS = 6
FRUITLESS = 2_000
"""A draw ends after so many sums that added nothing."""


class Options(Frozen):
    """Which sums there are."""

    terms: tuple[Annotated[int, Field(ge=2, le=5)], ...] = Field(default=(2, 3, 4), min_length=1)
    """Numbers of terms; each is a stratum."""


CARRY = Label(
    name="carry",
    asks="a digit is carried",
    present="where a digit is carried",
    absent="where none is",
    verb="plain",
)
KNOBS = (
    Knob(
        name="digits",
        word="digits",
        low=1,
        high=MOST_DIGITS,
        default=1,
        step=1,
        means="the digits of each number; of 1.5 half of the sums have one and half have two",
    ),
    Knob(
        name="carry_ratio",
        word="carries",
        low=0,
        high=1,
        default=0,
        step=0.25,
        means="the share of the sums in which a digit is carried",
        label=CARRY,
    ),
)


class Sums(PlainRows):
    """`What is 12 + 7?`; sums that are equal up to the order of their terms are equal."""

    name, version = "sums", "1"

    def __init__(self, options: Options) -> None:
        self.space = Space(
            strata=tuple(Stratum(name=str(n), label=f"{n} terms", knobs=KNOBS) for n in options.terms),
            key="terms",
            noun="kind of sum",
            short="kind",
            task="adds whole numbers",
            brief="adds whole numbers",
            guideline="Ask for more digits and carries where most sums are right, for fewer where most fail.",
            categories=("unreadable", "wrong"),
            terms=("close",),
            mention=r"\b\d terms",
        )

    def check(self, config: EnvConfig, count: int) -> None:
        """ConfigError if the config is none of sums."""
        for name, part in config.strata.items():
            if name not in self.space.names or [*part.knobs] != [knob.name for knob in KNOBS]:
                raise ConfigError(f"{config.key}.{name}: {part} is not of this family")

    def draw(
        self,
        stratum: str,
        knobs: Mapping[str, float],
        count: int,
        source: Source,
        held_out: frozenset[str],
        workers: int = 1,
    ) -> Drawn:
        """Sums, those with fewer digits first, of which the first ones carry."""
        rng, seen, found = generator(*source, stratum), set(held_out), []
        carried, long = round(knobs["carry_ratio"] * count), round(knobs["digits"] % 1 * count)
        for index in range(count):
            digits, carries = int(knobs["digits"]) + (index >= count - long), index < carried
            for _ in range(FRUITLESS):
                terms = _terms(rng, int(stratum), digits, carries)
                name = "+".join(map(str, sorted(terms)))
                if name not in seen and _carries(terms) == carries:
                    break
            else:
                raise ShortageError(f"{stratum} terms: found {len(found)} of {count}; ask for fewer", found)
            seen.add(name)
            question, answer = f"What is {' + '.join(map(str, terms))}?", str(sum(terms))
            labels = frozenset(["carry"] * carries)
            found.append(
                PlainInstance(id=name, stratum=stratum, question=question, answer=answer, labels=labels)
            )
        return Drawn(found, {"instances": count, "carries": carried}, f"{stratum} terms: {count} sums")

    def longest_prompt(self, style: str) -> str:
        """The most and longest terms."""
        return f"What is {' + '.join(['9' * MOST_DIGITS] * int(self.space.names[-1]))}?"

    def judge(self, instances: Sequence[PlainInstance], answers: Sequence[str]) -> list[PlainVerdict]:
        """The last number of an answer is what it says."""
        return [_verdict(one.answer, answer) for one, answer in zip(instances, answers, strict=True)]


def _terms(rng: np.random.Generator, count: int, digits: int, carries: bool) -> list[int]:
    """Terms, drawn digit by digit; without `carries` no digits in one place sum to more than 9."""
    terms = np.zeros(count, int)
    for place in range(digits):
        column = rng.integers(place == digits - 1, 10, count)
        while not carries and column.sum() > 9:
            column = rng.integers(place == digits - 1, 10, count)
        terms += column * 10**place
    return terms.tolist()


def _carries(terms: list[int]) -> bool:
    return any(sum(term // 10**place % 10 for term in terms) > 9 for place in range(MOST_DIGITS))


def _verdict(right: str, answer: str) -> PlainVerdict:
    said = re.findall(r"\d{1,20}", answer[-200:])
    if not said:
        return PlainVerdict(valid=False, category="unreadable", detail="no number", terms={"close": 0})
    if said[-1] == right:
        return PlainVerdict(valid=True, terms={"close": 1})
    close = sum(a == b for a, b in zip(said[-1][::-1], right[::-1], strict=False)) / len(right)
    return PlainVerdict(
        valid=False, category="wrong", detail=f"{said[-1]}, not {right}", terms={"close": close}
    )


FAMILY = Family(Options, Sums)
