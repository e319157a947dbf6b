"""What the tiny policy is taught before any reinforcement learning: plans of easy boards, and how to design configs."""

from collections.abc import Callable

import numpy as np
from pydantic import BaseModel, ConfigDict

from engineer.answer import answer_text
from engineer.context import VARIANTS, ConfigSpace, DesignContext, StageRecord, design_prompt
from engineer.teacher import DATA_UNITS, teach
from envgen.breakdown import Breakdown, SizeBreakdown
from envgen.config import EnvConfig, SizeConfig
from envgen.prompts import PromptStyle, answer, prompt
from envgen.sampler import sample
from envgen.seeds import generator
from envgen.verifier import FailureCategory
from policy.tiny.spec import CorpusConfig

EVALUATED = 150


class Example(BaseModel):
    """One question with the answer to be learned."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    prompt: str
    completion: str


def board_examples(config: CorpusConfig, held_out: frozenset[str], workers: int, progress: Callable[[str], None] | None = None) -> list[Example]:
    """Boards that need no wait with their optimal plans; boards in `held_out` are left out."""
    found = []
    each = config.boards // (len(config.map_sizes) * len(config.hole_ratios))
    for size in config.map_sizes:
        for hole_ratio in config.hole_ratios:
            # The smallest boards are few: 3x3 with one hole has about 1,300 that need no wait.
            count = min(each, 500) if size == 3 else each
            easy = EnvConfig(sizes={size: SizeConfig(data_ratio=1, hole_ratio=hole_ratio, wait_ratio=0)})
            instances, _ = sample(
                easy, count, agents=config.agents, seed=config.seed, purpose=f"bootstrap-{hole_ratio}", held_out=held_out, workers=workers, progress=progress
            )
            found += [Example(prompt=prompt(i.problem, PromptStyle.COMPACT), completion=answer(i.solution.plan)) for i in instances]
    return found


def design_examples(config: CorpusConfig) -> list[Example]:
    """Design questions over made-up stages, in every context variant, answered by the rule."""
    rng = generator(config.seed, "design-examples")
    variants = list(VARIANTS)
    found = []
    for index in range(config.designs):
        context = random_context(rng, config.space)
        designed, rationale = teach(context)
        found.append(Example(prompt=design_prompt(variants[index % len(variants)], context), completion=answer_text(rationale, designed)))
    return found


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
