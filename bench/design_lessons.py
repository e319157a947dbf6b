"""Design questions over made-up stages, with the answers of `design_rule`."""

import json
from collections.abc import Iterator, Sequence

import numpy as np
from design_rule import PARTS, propose

from engineer.bench.worlds import TRAPS, draw_world, space_of
from engineer.context import DesignContext, StageRecord, letters_of
from engineer.prompt import design_prompt
from envgen.breakdown import Breakdown, Counts, Labelled
from envgen.config import SHARE, EnvConfig, Part
from envgen.estimates import Difference
from envgen.seeds import generator
from envgen.space import Knob, Space
from infra.config.preset import Preset
from infra.runs.context import training_facts

CONTEXTS = ("V1", "V6W", "V3", "V6W", "V5", "V6W", "V6", "V6W", "FW", "V6W", "FGHSTW", "V6W")
"""Contexts of the questions, in turn. What one does not show, the rule does not know either."""
ANSWERS = 50, 200
"""Fewest and most answers of a stratum."""
STAGES = 0.4, 0.4, 0.15, 0.05
"""How often one to four stages are done."""
BROKEN = 0.04
"""Share of the strata whose answers are mostly unreadable."""


def lessons(seed: int, preset: Preset, bench: float) -> Iterator[tuple[str, str]]:
    """Yield pairs of question and answer without end, see `drawn`."""
    return ((question, answer) for _, question, answer in drawn(seed, preset, CONTEXTS, bench))


def drawn(
    seed: int, preset: Preset, contexts: Sequence[str], bench: float = 0.0
) -> Iterator[tuple[DesignContext, str, str]]:
    """Yield made-up context, question and answer without end: half of the questions are of the space of the
    preset, the others of some of its strata, with their knobs in other ranges; a share is of worlds of
    EngineerBench."""
    rng, facts = generator(seed, "lessons"), training_facts(preset)
    while True:
        for context in contexts:
            labels = "W" in letters_of(context)
            if rng.random() < bench:
                made_up = bench_context(rng, labels)
            else:
                made_up = random_context(rng, random_space(rng, preset.space), facts, labels)
            edits, reason = propose(made_up)
            gate = "rollback" if rng.random() < 0.3 else "off"
            yield made_up, design_prompt(made_up, context, gate), answer_text(reason, edits)


def answer_text(reason: str, edits: dict[str, dict[str, float]]) -> str:
    """Return the JSON of an answer, numbers with two digits after the point."""
    parts = {
        name: ",".join(f'"{knob}":{value:.2f}' for knob, value in numbers.items())
        for name, numbers in edits.items()
    }
    strata = ",".join(f'"{name}":{{{numbers}}}' for name, numbers in parts.items())
    return f'{{"rationale":{json.dumps(reason)},"edits":{{{strata}}}}}'


def random_space(rng: np.random.Generator, space: Space) -> Space:
    """Return the space, or two or more of its strata with other ranges of the knobs without a label."""
    if rng.random() < 0.5 or len(space.strata) < 2:
        return space
    count = int(rng.integers(2, len(space.strata) + 1))
    chosen = np.sort(rng.choice(len(space.strata), count, replace=False))
    knobs = {knob.name: _other_range(rng, knob) for knob in space.knobs}
    strata = [
        stratum.model_copy(update={"knobs": tuple(knobs[knob.name] for knob in stratum.knobs)})
        for stratum in (space.strata[place] for place in chosen)
    ]
    return space.model_copy(update={"strata": tuple(strata)})


def _other_range(rng: np.random.Generator, knob: Knob) -> Knob:
    levels = round((knob.widest[1] - knob.widest[0]) / knob.step)
    if knob.label or levels < 2:
        return knob
    low, high = np.sort(rng.choice(levels + 1, 2, replace=False)) * knob.step + knob.widest[0]
    low, high = round(float(low), 4), round(float(high), 4)
    return knob.model_copy(update={"low": low, "high": high, "default": low})


def bench_context(rng: np.random.Generator, labels: bool) -> DesignContext:
    """Return a made-up context in the space of a world that no bench draws, with what the bench tells."""
    space = space_of(draw_world(str(rng.choice([*TRAPS])), int(rng.integers(10**6, 10**7))))
    facts = {"algorithm": "GRPO", "reward": {"valid": 1.0}}
    made_up = random_context(rng, space, facts, labels, (6, 40))
    records = [
        record.model_copy(update={"change": {}, "zero_variance": {}})
        for record in (*made_up.history, made_up.current)
    ]
    return made_up.model_copy(update={"current": records[-1], "history": tuple(records[:-1]), "epochs": 1.0})


def random_context(
    rng: np.random.Generator,
    space: Space,
    facts: dict[str, object],
    labels: bool,
    answers: tuple[int, int] = ANSWERS,
) -> DesignContext:
    """Return a made-up context after one to four stages."""
    records = [
        StageRecord(
            stage=stage,
            config=_config(rng, space),
            breakdown=_breakdown(rng, space, labels, answers),
            zero_variance={name: float(rng.beta(2, 2)) for name in space.names},
            change={name: _change(rng) for name in space.names},
        )
        for stage in range(1 + int(rng.choice(4, p=STAGES)))
    ]
    before = DesignContext(space=space, current=records[-2:][0], stages=9, instances=1, epochs=1)
    return DesignContext(
        space=space,
        current=records[-1],
        history=tuple(records[:-1]),
        previous_rationale=propose(before)[1] if len(records) > 1 else "",
        stages=int(rng.integers(len(records) + 1, len(records) + 5)),
        instances=int(rng.choice([200, 320, 384, 400, 600, 768, 800, 1200, 1600, 2400, 4000])),
        epochs=float(rng.choice([1, 2, 3, 4])),
        training={**facts, "group_size": int(rng.choice([4, 8, 16]))},
    )


def _change(rng: np.random.Generator) -> Difference:
    value, half = rng.normal(0.03, 0.08), rng.uniform(0.02, 0.12)
    return Difference(value=value, low=value - half, high=value + half, p=0.5)


def _config(rng: np.random.Generator, space: Space) -> EnvConfig:
    count = len(space.strata)
    # The weights of the rule, equal ones, or any.
    parts = [part for _, part in PARTS]
    drawn = [rng.choice(parts, count), np.ones(count), rng.dirichlet(np.full(count, 2.0))]
    weights = drawn[rng.choice(3, p=[0.5, 0.25, 0.25])]
    same, levels = rng.random() < 0.5, {knob.name: _value(rng, knob) for knob in space.knobs}
    strata = {}
    for stratum, share in zip(space.strata, (weights / weights.sum()).tolist(), strict=True):
        knobs = {knob.name: levels[knob.name] if same else _value(rng, knob) for knob in stratum.knobs}
        strata[stratum.name] = Part.model_validate({SHARE: share, **knobs})
    return space.config(strata)


def _value(rng: np.random.Generator, knob: Knob) -> float:
    # What cannot be drawn leaves odd numbers in configs.
    if rng.random() < 0.25:
        return round(float(rng.uniform(knob.low, knob.high)), 2)
    steps = rng.integers(0, round((knob.high - knob.low) / knob.step) + 1)
    return knob.clamped(round(knob.low + float(steps) * knob.step, 6))


def _breakdown(rng: np.random.Generator, space: Space, labels: bool, answers: tuple[int, int]) -> Breakdown:
    """Valid rates mostly fall from stratum to stratum, between two ends that are drawn first."""
    low, high = np.sort(rng.uniform(0, 1, 2))
    rates = np.sort(rng.uniform(low, high, len(space.strata)))[::-1] + rng.normal(0, 0.05, len(space.strata))
    strata = {}
    for stratum, rate in zip(space.strata, np.clip(rates, 0, 1), strict=True):
        broken, n = rng.random() < BROKEN, int(rng.integers(answers[0], answers[1] + 1))
        valid = int(rng.binomial(n, 0.02 if broken else rate))
        kinds = [name for name in space.categories if name != space.fault]
        weights = np.where(np.arange(len(kinds)) == 0, 0.9 if broken else 0.03, 0.1)
        failed = rng.multinomial(n - valid, rng.dirichlet(5 * weights / weights.sum()))
        strata[stratum.name] = Counts(
            n=n,
            valid=valid,
            optimal=int(rng.binomial(valid, rng.uniform(0.5, 1))) if space.best else valid,
            failures=dict.fromkeys(space.categories, 0) | dict(zip(kinds, failed.tolist(), strict=True)),
            labels={
                knob.label.name: _labelled(rng, n, valid) for knob in stratum.knobs if labels and knob.label
            },
            measures={name: float(rng.exponential(0.5)) for name in space.measures} if valid else {},
            truncated=int(rng.binomial(n - valid, 0.1)),
        )
    return Breakdown(strata=strata)


def _labelled(rng: np.random.Generator, answers: int, valid: int) -> Labelled:
    """Counts of about half of the answers, of which mostly fewer are valid."""
    n = round(answers * rng.uniform(0.4, 0.6))
    least, most = max(0, valid - (answers - n)), min(n, valid)
    return Labelled(n=n, valid=least + round(rng.beta(1, 2) * (most - least)))
