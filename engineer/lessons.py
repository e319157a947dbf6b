"""Lessons in the engineer task: design questions over made-up stages with the rule's answers."""

from collections.abc import Sequence

import numpy as np

from engineer.answer import answer_text
from engineer.context import VARIANTS, ConfigSpace, DesignContext, Module, StageRecord
from engineer.prompt import design_prompt
from engineer.teacher import DATA_UNITS, teach
from envgen.breakdown import Breakdown, SizeBreakdown
from envgen.config import EnvConfig, SizeConfig
from envgen.seeds import generator
from envgen.verifier import FailureCategory

EVALUATED = 150
TAUGHT = ("V1", "V2", "V3", "V4", "V5", "V6", "V6S")
"""Context variants of the lessons: fixed, so that the start policies can be made again."""


def lessons(space: ConfigSpace, count: int, seed: int, taught: Sequence[str] = TAUGHT) -> list[tuple[str, str]]:
    """(question, answer) pairs over made-up stages, in every taught variant in turn, in the compact wording, answered by the rule.

    What a variant does not show, the rule does not know either.
    """
    rng, waits = generator(seed, "lessons"), generator(seed, "lessons-waits")
    found = []
    for index in range(count):
        variant, context = taught[index % len(taught)], random_context(rng, space)
        if Module.WAITS in VARIANTS[variant]:
            context = with_waits(context, waits)
        designed, rationale = teach(context)
        found.append((design_prompt(variant, context, "compact").text, answer_text(rationale, designed)))
    return found


def with_waits(context: DesignContext, rng: np.random.Generator) -> DesignContext:
    """The context with made-up counts of the current stage where a wait is needed, half of the answers: mostly fewer of them are valid."""
    sizes = {}
    for size, part in context.current.breakdown.sizes.items():
        waiting = part.n // 2
        least, most = max(0, part.valid - (part.n - waiting)), min(waiting, part.valid)
        sizes[size] = part.model_copy(update={"waiting": waiting, "waiting_valid": least + round(rng.beta(1, 2) * (most - least))})
    return context.model_copy(update={"current": context.current.model_copy(update={"breakdown": Breakdown(sizes=sizes)})})


def random_context(rng: np.random.Generator, space: ConfigSpace) -> DesignContext:
    """A made-up design context: any config on the rule's grid, valid rates that mostly fall with the map size."""
    stage = int(rng.integers(0, 3))
    records = [StageRecord(stage=n, config=_random_config(rng, space), breakdown=_random_breakdown(rng, space)) for n in range(stage + 1)]
    rationale = teach(_context(records[:-1], "", space, rng))[1] if stage else ""
    return _context(records, rationale, space, rng)


def _context(records: list[StageRecord], rationale: str, space: ConfigSpace, rng: np.random.Generator) -> DesignContext:
    return DesignContext(
        space=space,
        current=records[-1],
        history=tuple(records[:-1]),
        previous_rationale=rationale,
        stages=int(rng.integers(len(records), len(records) + 3)),
        instances=int(rng.choice([200, 400, 800, 1200, 1600, 4000])),
        epochs=float(rng.choice([1, 2, 3, 4])),
    )


def _random_config(rng: np.random.Generator, space: ConfigSpace) -> EnvConfig:
    sizes = space.map_sizes
    units = 1 + rng.multinomial(DATA_UNITS - len(sizes), rng.dirichlet(np.full(len(sizes), 2.0)))
    # Capacity projection leaves odd numbers in configs, so some configs are off the rule's grid.
    shift = rng.uniform(0, 0.04, len(sizes)) if rng.random() < 0.25 else np.zeros(len(sizes))
    shares = units / DATA_UNITS + shift - shift.mean()
    waits = rng.integers(0, 4, len(sizes)) / 4 + 3 * shift
    tenths = np.arange(round(space.min_hole_ratio * 10), round(space.max_hole_ratio * 10) + 1)
    return EnvConfig(
        sizes={
            size: SizeConfig(data_ratio=float(share), hole_ratio=int(rng.choice(tenths)) / 10, wait_ratio=float(wait))
            for size, share, wait in zip(sizes, shares, waits, strict=True)
        }
    )


def _random_breakdown(rng: np.random.Generator, space: ConfigSpace) -> Breakdown:
    rates = np.sort(rng.uniform(0, 1, len(space.map_sizes)))[::-1] + rng.normal(0, 0.05, len(space.map_sizes))
    sizes = {}
    for size, rate in zip(space.map_sizes, np.clip(rates, 0, 1), strict=True):
        valid = int(rng.binomial(EVALUATED, rate))
        failed = rng.multinomial(EVALUATED - valid, rng.dirichlet(np.full(len(FailureCategory), 0.5)))
        sizes[size] = SizeBreakdown(
            n=EVALUATED,
            valid=valid,
            optimal=int(rng.binomial(valid, rng.uniform(0.7, 1))),
            failures={category: int(count) for category, count in zip(FailureCategory, failed, strict=True)},
        )
    return Breakdown(sizes=sizes)
