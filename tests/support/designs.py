"""Design contexts over made-up stages, and the text of a good answer."""

import json

import numpy as np

from engineer.context import DesignContext, StageRecord
from envgen.breakdown import Breakdown, Counts, Labelled
from envgen.config import SHARE, EnvConfig, Part
from envgen.space import Space


def answer_text(rationale: str, config: EnvConfig) -> str:
    """The compact JSON that answers a design question; numbers have two digits after the point."""
    parts = {
        name: ",".join(f'"{knob}":{value:.2f}' for knob, value in {SHARE: part[SHARE], **part.knobs}.items())
        for name, part in config.strata.items()
    }
    strata = ",".join(f'"{name}":{{{numbers}}}' for name, numbers in parts.items())
    return f'{{"rationale":{json.dumps(rationale)},"config":{{"{config.key}":{{{strata}}}}}}}'


def random_context(rng: np.random.Generator, space: Space) -> DesignContext:
    """A context after up to three stages: knobs on their steps, valid rates that fall along the strata."""
    stages = int(rng.integers(1, 5))
    records = [
        StageRecord(stage=stage, config=_config(rng, space), breakdown=_breakdown(rng, space))
        for stage in range(stages)
    ]
    return DesignContext(
        space=space, current=records[-1], history=tuple(records[:-1]), stages=stages, instances=400, epochs=2
    )


def _config(rng: np.random.Generator, space: Space) -> EnvConfig:
    weights = rng.integers(1, 4, len(space.strata))
    parts = {}
    for stratum, share in zip(space.strata, (weights / weights.sum()).tolist(), strict=True):
        knobs = {}
        for knob in stratum.knobs:
            step = rng.integers(0, round((knob.high - knob.low) / knob.step) + 1)
            knobs[knob.name] = knob.clamped(round(knob.low + step * knob.step, 6))
        parts[stratum.name] = Part.model_validate({SHARE: share, **knobs})
    return space.config(parts)


def _breakdown(rng: np.random.Generator, space: Space) -> Breakdown:
    strata = {}
    for stratum, rate in zip(space.strata, np.sort(rng.uniform(size=len(space.strata)))[::-1], strict=True):
        valid, n = int(rng.binomial(200, rate)), 100
        failed = rng.multinomial(200 - valid, rng.dirichlet(np.full(len(space.categories), 0.5)))
        least, most = max(0, valid - (200 - n)), min(n, valid)
        labels = {
            knob.label.name: Labelled(n=n, valid=least + round(rng.beta(1, 2) * (most - least)))
            for knob in stratum.knobs
            if knob.label
        }
        failures, best = dict(zip(space.categories, failed.tolist(), strict=True)), valid // 2
        best = best if space.best else valid
        strata[stratum.name] = Counts(n=200, valid=valid, optimal=best, failures=failures, labels=labels)
    return Breakdown(strata=strata)
