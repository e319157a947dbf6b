"""How much of each stratum a base policy solves, and what it solved before it was taught."""

from collections.abc import Iterable
from pathlib import Path

from envgen.breakdown import Rate, wilson
from envgen.frozen import Frozen
from envgen.space import Space
from policy.rollouts import Rollout


class Rates(Frozen):
    """Valid rates of greedy answers of one lesson."""

    name: str
    """Of the lesson."""
    valid: dict[str, dict[str, Rate]]
    """Label of a stratum -> word of the knob that asks for a label that instances have, or "" for none ->
    rate."""

    def line(self) -> str:
        """The rates in percent: `sums: 2 terms 84, 3 terms 88 (carries 5)`."""
        found = []
        for stratum, rates in self.valid.items():
            percent = {word: f"{100 * rate.value:.0f}" for word, rate in rates.items()}
            plain = percent.pop("", "-")
            labelled = ", ".join(f"{word} {value}" for word, value in percent.items())
            found.append(f"{stratum} {plain}" + (f" ({labelled})" if labelled else ""))
        return f"{self.name}: {', '.join(found)}"


class Taught(Frozen):
    """What a policy was taught, with its valid rates on instances of each lesson that it was not taught."""

    model: str | None
    """The chat model that it was; None: its weights were random."""
    steps: int
    before: tuple[Rates, ...]
    """None of random weights."""
    after: tuple[Rates, ...]


RATES = "rates.json"
"""Beside the weights of a policy that `envwright bootstrap` made: `Taught`."""


def rates_path(work: Path, step: int) -> Path:
    """Where the rates of a checkpoint are kept, beside it."""
    return work / f"rates-{step:06d}.json"


def rates_of(name: str, space: Space, rollouts: Iterable[Rollout]) -> Rates:
    """The valid rate of each stratum, apart for each label that a knob asks for."""
    words = {knob.label.name: knob.word for knob in space.knobs if knob.label}
    counted: dict[str, dict[str, list[bool]]] = {}
    for rollout in rollouts:
        instance = rollout.instance
        stratum = counted.setdefault(space.label(instance.stratum), {})
        for word in [words[label] for label in words if label in instance.labels] or [""]:
            stratum.setdefault(word, []).append(rollout.verdict.valid)
    return Rates(
        name=name,
        valid={
            stratum: {word: wilson(sum(valid), len(valid)) for word, valid in found.items()}
            for stratum, found in counted.items()
        },
    )
