"""Sums of whole numbers as an environment: the worked example, with all that an environment has to define.

environment:
  name: sums
  options: {terms: [2, 3]}
"""

import re
from collections.abc import Mapping
from typing import Annotated

import numpy as np
from pydantic import Field

from envgen.environment import Environment, Instance, Verdict
from envgen.frozen import Frozen
from envgen.space import Knob, Label, Space, Stratum


class Options(Frozen):
    """Which sums there are."""

    terms: tuple[Annotated[int, Field(ge=2, le=5)], ...] = Field(default=(2, 3, 4), min_length=1)
    """Numbers of terms; each is a stratum."""


DIGITS = Knob(
    name="digits",
    low=1,
    high=6,
    step=1,
    whole=True,
    description="the digits of each number; of 1.5 half of the sums have one and half have two",
)
CARRIES = Knob(
    name="carry_ratio",
    word="carries",
    step=0.25,
    description="the share of the sums in which a digit is carried",
    label=Label(name="carry", condition="a digit is carried"),
)


class Sums(Environment):
    """Sums of whole numbers, as `What is 12 + 7?`; the order of the terms makes no difference."""

    name, version = "sums", "2"
    Options = Options

    def __init__(self, options: Options) -> None:
        strata = [Stratum(name=str(n), label=f"{n} terms", knobs=(DIGITS, CARRIES)) for n in options.terms]
        self.space = Space(
            strata=tuple(strata),
            key="terms",
            noun="kind of sum",
            task="adds whole numbers",
            guideline="Ask for more digits and carries where most sums are right, for fewer where most fail.",
            categories=("unreadable", "wrong"),
            terms=("close",),
        )

    def generate_one(self, stratum: str, knobs: Mapping[str, float], rng: np.random.Generator) -> Instance:
        """Terms drawn digit by digit; where nothing is carried no digits in one place sum to more than 9."""
        terms, carried = np.zeros(int(stratum), int), False
        for place in range(int(knobs["digits"])):
            first = place + 1 == knobs["digits"]
            column = rng.integers(first, 10, len(terms))
            while not knobs["carry_ratio"] and column.sum() > 9:
                column = rng.integers(first, 10, len(terms))
            terms += column * 10**place
            carried = carried or column.sum() > 9
        return Instance(
            id="+".join(map(str, sorted(terms))),
            stratum=stratum,
            question=f"What is {' + '.join(map(str, terms))}?",
            answer=str(sum(terms)),
            labels=frozenset(["carry"] if carried else []),
        )

    def judge_one(self, instance: Instance, answer: str) -> Verdict:
        """The last number of an answer is what it says."""
        said, right = re.findall(r"(?:(?<!\w)-)?(?<![\d.])\d+", answer[-200:]), instance.answer
        if not said:
            return Verdict(valid=False, category="unreadable", detail="no number", terms={"close": 0})
        same = sum(a == b for a, b in zip(said[-1][::-1], right[::-1], strict=False))
        terms = {"close": same / len(right)}
        if said[-1] == right:
            return Verdict(valid=True, terms=terms)
        return Verdict(valid=False, category="wrong", detail=f"{said[-1]}, not {right}", terms=terms)
