"""Lessons in the engineer task: design questions over made-up stages with the rule's answers."""

from collections.abc import Iterator, Sequence

import numpy as np

from engineer.answer import answer_text
from engineer.context import VARIANTS, ConfigSpace, DesignContext, Module, StageRecord
from engineer.prompt import design_prompt
from engineer.teacher import HOLE_STEPS, WAIT_STEPS, teach
from envgen.breakdown import Breakdown, SizeBreakdown
from envgen.config import MAX_HOLE_RATIO, MAX_SIZE, MIN_SIZE, EnvConfig, SizeConfig
from envgen.mapf.verifier import FailureCategory
from envgen.seeds import generator

USUAL = ConfigSpace(map_sizes=(3, 4, 5, 6), min_hole_ratio=0.2, max_hole_ratio=0.4)
"""The config space of half of the lessons, that of the preset `tiny`; the others have one of their own."""
FEWEST_SIZES, MOST_SIZES = 3, 6
MOST_EVALUATED = 200
TAUGHT = ("V1", "V2", "V3", "V4", "V5", "V6", "V6S", "V6W", "V6W", "V6W")
"""Context variants of the lessons, in turn."""


def lessons(seed: int, taught: Sequence[str] = TAUGHT, space: ConfigSpace | None = None) -> Iterator[tuple[str, str]]:
    """Endless (question, answer) pairs over made-up stages in the compact wording, answered by the rule.

    What a variant does not show, the rule does not know either. Without `space` each has one of its own, see `USUAL`.
    """
    rng, waits = generator(seed, "lessons"), generator(seed, "lessons-waits")
    while True:
        for variant in taught:
            context = random_context(rng, space or _random_space(rng))
            if Module.WAITS in VARIANTS[variant]:
                context = with_waits(context, waits)
            designed, rationale = teach(context)
            yield design_prompt(variant, context, "compact").text, answer_text(rationale, designed)


def with_waits(context: DesignContext, rng: np.random.Generator) -> DesignContext:
    """The context with made-up counts of the current stage where a wait is needed, about half of the answers: mostly fewer of them are valid."""
    sizes = {}
    for size, part in context.current.breakdown.sizes.items():
        waiting = round(part.n * rng.uniform(0.4, 0.6))
        least, most = max(0, part.valid - (part.n - waiting)), min(waiting, part.valid)
        sizes[size] = part.model_copy(update={"waiting": waiting, "waiting_valid": least + round(rng.beta(1, 2) * (most - least))})
    return context.model_copy(update={"current": context.current.model_copy(update={"breakdown": Breakdown(sizes=sizes)})})


def random_context(rng: np.random.Generator, space: ConfigSpace) -> DesignContext:
    """A made-up design context: a config that is mostly the rule's or an even one, valid rates that mostly fall with the map size."""
    stage = int(rng.integers(0, 4))
    records = [StageRecord(stage=n, config=_random_config(rng, space), breakdown=_random_breakdown(rng, space)) for n in range(stage + 1)]
    rationale = teach(_context(records[:-1], "", space, rng))[1] if stage else ""
    return _context(records, rationale, space, rng)


def _random_space(rng: np.random.Generator) -> ConfigSpace:
    if rng.random() < 0.5:
        return USUAL
    count = int(rng.integers(FEWEST_SIZES, MOST_SIZES + 1))
    first = int(rng.integers(MIN_SIZE, MAX_SIZE - count + 2))
    low, high = sorted(rng.choice(round(MAX_HOLE_RATIO * HOLE_STEPS) + 1, 2, replace=False) / HOLE_STEPS)
    return ConfigSpace(map_sizes=tuple(range(first, first + count)), min_hole_ratio=float(low), max_hole_ratio=float(high))


def _context(records: list[StageRecord], rationale: str, space: ConfigSpace, rng: np.random.Generator) -> DesignContext:
    return DesignContext(
        space=space,
        current=records[-1],
        history=tuple(records[:-1]),
        previous_rationale=rationale,
        stages=int(rng.integers(len(records), len(records) + 5)),
        instances=int(rng.choice([200, 320, 400, 600, 800, 1200, 1600, 2400, 4000])),
        epochs=float(rng.choice([1, 2, 3, 4])),
    )


def _random_config(rng: np.random.Generator, space: ConfigSpace) -> EnvConfig:
    sizes = space.map_sizes
    # The rule's weights, equal ones, or any.
    weights = [rng.integers(1, 4, len(sizes)), np.ones(len(sizes)), rng.dirichlet(np.full(len(sizes), 2.0))][rng.choice(3, p=[0.5, 0.25, 0.25])]
    # Projection to what can be drawn leaves odd numbers in configs.
    waits = rng.integers(0, WAIT_STEPS + 1, len(sizes)) / WAIT_STEPS if rng.random() < 0.75 else rng.random(len(sizes))
    if rng.random() < 0.5:
        waits = np.full(len(sizes), waits[0])
    holes = rng.integers(round(space.min_hole_ratio * HOLE_STEPS), round(space.max_hole_ratio * HOLE_STEPS) + 1, len(sizes)) / HOLE_STEPS
    if rng.random() < 0.5:
        holes = np.full(len(sizes), holes[0])
    return EnvConfig(
        sizes={
            size: SizeConfig(data_ratio=float(weight), hole_ratio=float(hole), wait_ratio=round(float(wait), 2))
            for size, weight, hole, wait in zip(sizes, weights / weights.sum(), holes, waits, strict=True)
        }
    )


def _random_breakdown(rng: np.random.Generator, space: ConfigSpace) -> Breakdown:
    """Valid rates between two ends that are drawn first, so that all sizes may be alike."""
    low, high = np.sort(rng.uniform(0, 1, 2))
    rates = np.sort(rng.uniform(low, high, len(space.map_sizes)))[::-1] + rng.normal(0, 0.05, len(space.map_sizes))
    sizes = {}
    for size, rate in zip(space.map_sizes, np.clip(rates, 0, 1), strict=True):
        n = int(rng.integers(50, MOST_EVALUATED + 1))
        valid = int(rng.binomial(n, rate))
        failed = rng.multinomial(n - valid, rng.dirichlet(np.full(len(FailureCategory), 0.5)))
        sizes[size] = SizeBreakdown(
            n=n,
            valid=valid,
            optimal=int(rng.binomial(valid, rng.uniform(0.5, 1))),
            failures={category: int(count) for category, count in zip(FailureCategory, failed, strict=True)},
        )
    return Breakdown(sizes=sizes)
