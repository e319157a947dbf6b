"""Lessons in the engineer task: design questions over made-up stages with the rule's answers."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from engineer.answer import answer_text
from engineer.context import VARIANTS, DesignContext, Module, StageRecord
from engineer.prompt import design_prompt
from engineer.teacher import at_level, level, teach
from envgen.breakdown import Breakdown, Counts, Labelled
from envgen.config import SHARE, EnvConfig, Part
from envgen.seeds import generator
from envgen.space import Knob, Space

MOST_EVALUATED = 200
TAUGHT = ("V1", "V2", "V3", "V4", "V5", "V6", "V6S", "V6W", "V6W", "V6W")
"""Context variants of the lessons, in turn."""


def lessons(
    seed: int, spaces: Callable[[np.random.Generator], Space], taught: Sequence[str] = TAUGHT
) -> Iterator[tuple[str, str]]:
    """Endless (question, answer) pairs over made-up stages in the compact wording, answered by the rule.

    Each has a space that `spaces` draws. What a variant does not show, the rule does not know either.
    """
    rng, labels = generator(seed, "lessons"), generator(seed, f"lessons-{Module.WAITS}")
    while True:
        for variant in taught:
            context = random_context(rng, spaces(rng))
            if Module.WAITS in VARIANTS[variant]:
                context = with_labels(context, labels)
            designed, rationale = teach(context)
            yield design_prompt(variant, context, "compact"), answer_text(rationale, designed)


def with_labels(context: DesignContext, rng: np.random.Generator) -> DesignContext:
    """The context with made-up counts of the current stage where a label is present, about half of the
    answers.

    Mostly fewer of them are valid.
    """
    strata = {}
    for name, part in context.current.breakdown.strata.items():
        labels = [knob.label.name for knob in context.space[name].knobs if knob.label]
        strata[name] = part.model_copy(
            update={"labels": {label: _random_label(rng, part) for label in labels}}
        )
    current = context.current.model_copy(update={"breakdown": Breakdown(strata=strata)})
    return context.model_copy(update={"current": current})


def random_context(rng: np.random.Generator, space: Space) -> DesignContext:
    """A made-up design context: a config that is mostly the rule's or an even one, valid rates that mostly
    fall from stratum to stratum."""
    stage = int(rng.integers(0, 4))
    records = [
        StageRecord(stage=n, config=_random_config(rng, space), breakdown=_random_breakdown(rng, space))
        for n in range(stage + 1)
    ]
    rationale = teach(_context(records[:-1], "", space, rng))[1] if stage else ""
    return _context(records, rationale, space, rng)


def _random_label(rng: np.random.Generator, part: Counts) -> Labelled:
    n = round(part.n * rng.uniform(0.4, 0.6))
    least, most = max(0, part.valid - (part.n - n)), min(n, part.valid)
    return Labelled(n=n, valid=least + round(rng.beta(1, 2) * (most - least)))


def _context(
    records: list[StageRecord], rationale: str, space: Space, rng: np.random.Generator
) -> DesignContext:
    return DesignContext(
        space=space,
        current=records[-1],
        history=tuple(records[:-1]),
        previous_rationale=rationale,
        stages=int(rng.integers(len(records), len(records) + 5)),
        instances=int(rng.choice([200, 320, 400, 600, 800, 1200, 1600, 2400, 4000])),
        epochs=float(rng.choice([1, 2, 3, 4])),
    )


def _random_config(rng: np.random.Generator, space: Space) -> EnvConfig:
    count = len(space.strata)
    # The rule's weights, equal ones, or any.
    drawn = [rng.integers(1, 4, count), np.ones(count), rng.dirichlet(np.full(count, 2.0))]
    weights = drawn[rng.choice(3, p=[0.5, 0.25, 0.25])]
    shares = weights / weights.sum()
    # Those that ask for a label come first: the lessons of a seed depend on the order.
    values = {knob.name: _random_values(rng, knob, count) for knob in sorted(space.knobs, key=_without_label)}
    parts = {}
    for index, stratum in enumerate(space.strata):
        knobs = {knob.name: knob.clamped(values[knob.name][index]) for knob in stratum.knobs}
        parts[stratum.name] = Part.model_validate({SHARE: float(shares[index]), **knobs})
    return space.config(parts)


def _without_label(knob: Knob) -> bool:
    return knob.label is None


def _random_values(rng: np.random.Generator, knob: Knob, count: int) -> list[float]:
    """A knob's value in each stratum: levels, or all the same level; where it asks for a label also any."""
    # Projection to what can be drawn leaves odd numbers in configs.
    if knob.label and rng.random() >= 0.75:
        values = [round(knob.low + (knob.high - knob.low) * draw, 2) for draw in rng.random(count).tolist()]
    else:
        levels = rng.integers(level(knob, knob.low), level(knob, knob.high) + 1, count)
        values = [at_level(knob, int(steps)) for steps in levels]
    return values[:1] * count if rng.random() < 0.5 else values


def _random_breakdown(rng: np.random.Generator, space: Space) -> Breakdown:
    """Valid rates between two ends that are drawn first, so that all strata may be alike."""
    count = len(space.strata)
    # More than a few answers that could not be judged would have stopped the stage.
    kinds = [kind for kind in space.categories if kind != space.fault]
    low, high = np.sort(rng.uniform(0, 1, 2))
    rates = np.sort(rng.uniform(low, high, count))[::-1] + rng.normal(0, 0.05, count)
    strata = {}
    for name, rate in zip(space.names, np.clip(rates, 0, 1), strict=True):
        n = int(rng.integers(50, MOST_EVALUATED + 1))
        valid = int(rng.binomial(n, rate))
        failed = rng.multinomial(n - valid, rng.dirichlet(np.full(len(kinds), 0.5)))
        best = int(rng.binomial(valid, rng.uniform(0.5, 1)))
        strata[name] = Counts(
            n=n,
            valid=valid,
            optimal=best if space.best else valid,
            failures=dict.fromkeys(space.categories, 0) | dict(zip(kinds, failed.tolist(), strict=True)),
        )
    return Breakdown(strata=strata)
