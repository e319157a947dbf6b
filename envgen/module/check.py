"""Checks of a generator file by running it: `envwright check`."""

import time
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from envgen.environment import Instance, constant_rates, wrong_reference
from envgen.errors import ConfigError, validated
from envgen.module.environment import SCORER_FAILED, ModuleEnvironment, Options
from envgen.rows import instance_of, instance_row, instance_schema
from envgen.space import Stratum

ITEMS = 200
"""Instances drawn of each stratum, with its knobs in the middle of their ranges."""
GUESS_LIMIT = 0.3
"""Largest share of a stratum for which one fixed answer may be right."""
MIN_DISTINCT = 200
"""Smallest number of distinct instances of a stratum."""
JUNK = (
    *("0", "1", "-1", "yes", "no", "True", "None", "banana", "[]", "{}", "nan", "inf", "1e999"),
    *("9" * 5_000, "9**9**9", "__import__('os')", "\0", "\u0663\u0664", "\ud800", "(" * 3_000),
    *("<answer>", "x" * 20_000),
)
"""Answers that no question asks for, and that have broken scorers."""
Drawn = dict[str, list[Instance]]
"""Stratum -> instances."""


class Finding(NamedTuple):
    """Result of one check."""

    check: str
    ok: bool
    detail: str


def check_generator(file: Path) -> Iterator[Finding]:
    """Yield findings about a file; they end early if its generator fails.

    ConfigError if the file cannot be loaded.
    """
    options = validated(Options, {"file": file}, str(file))
    environment, other = ModuleEnvironment(options), ModuleEnvironment(options, hash_seed=1)
    strata = environment.space.strata
    try:
        yield from (_corners(environment, stratum) for stratum in strata)
        drawn = {stratum.name: _draw(environment, stratum) for stratum in strata}
        for drawer, how in ((environment, "twice in one process"), (other, "with another hash seed")):
            yield _deterministic(drawer, drawn, f"the same again, {how}")
        yield _references(environment, drawn)
        yield _stored(environment, drawn)
        yield _junk(environment, drawn)
        rates = constant_rates(environment, [*chain.from_iterable(drawn.values())])
        for name, rate in rates.items():
            detail = f"the commonest answer is right for {rate:.1%} of the questions"
            yield Finding(f"{name}: one answer to all", rate <= GUESS_LIMIT, detail)
        yield from _capacity(environment, drawn)
    except ConfigError as error:
        yield Finding("draws and scores", False, str(error))
    finally:
        environment.worker.close()
        other.worker.close()


def _middle(stratum: Stratum) -> dict[str, float]:
    return {knob.name: (knob.low + knob.high) / 2 for knob in stratum.knobs}


def _draw(environment: ModuleEnvironment, stratum: Stratum) -> list[Instance]:
    """Draw instances; of an integer knob at 1.5 every other instance gets 1, the rest 2."""
    halves = {name: 0.5 if name in environment.integer_knobs else 0 for name in _middle(stratum)}
    return [
        environment.entry(
            stratum.name, {k: v + seed % 2 * halves[k] for k, v in _middle(stratum).items()}, seed
        )
        for seed in range(ITEMS)
    ]


def _corners(environment: ModuleEnvironment, stratum: Stratum) -> Finding:
    """Draw five instances at each combination of the ends of the knobs."""
    slowest, place = 0.0, {}
    for corner in environment.corners(stratum):
        start = time.perf_counter()
        for seed in range(5):
            environment.entry(stratum.name, corner, seed)
        seconds = (time.perf_counter() - start) / 5
        slowest, place = max((slowest, place), (seconds, corner), key=lambda pair: pair[0])
    knobs = ", ".join(f"{name} {value:g}" for name, value in place.items()) or "no knobs"
    detail = f"slowest at {knobs}: {slowest * 1e3:.1f} ms a question"
    return Finding(f"{stratum.label}: ends of its knobs", True, detail)


def _deterministic(environment: ModuleEnvironment, drawn: Drawn, check: str) -> Finding:
    for stratum in environment.space.strata:
        pairs = zip(drawn[stratum.name], _draw(environment, stratum), strict=True)
        for seed, (first, second) in enumerate(pairs):
            if first != second:
                before, after = first.model_dump(), second.model_dump()
                field = next(name for name in before if before[name] != after[name])
                detail = (
                    f"{stratum.label}, seed {seed}: {field} was {before[field]!r:.80}, then "
                    f"{after[field]!r:.80}; take all randomness from rng, and iterate no set"
                )
                return Finding(check, False, detail)
    return Finding(check, True, f"{ITEMS} questions of each stratum")


def _references(environment: ModuleEnvironment, drawn: Drawn) -> Finding:
    every, start = [*chain.from_iterable(drawn.values())], time.perf_counter()
    if wrong := wrong_reference(environment, every):
        instance, verdict = wrong
        detail = f"{instance.answer!r:.80} to {instance.question!r:.80}: {verdict.category}, {verdict.detail}"
        return Finding("references score 1", False, detail)
    speed = len(every) / (time.perf_counter() - start)
    return Finding("references score 1", True, f"{len(every)}, {speed:,.0f} answers a second")


def _stored(environment: ModuleEnvironment, drawn: Drawn) -> Finding:
    check, every = "the same when stored and read", [*chain.from_iterable(drawn.values())]
    rows = [instance_row(environment, instance, "plain") for instance in every]
    try:
        table = pa.Table.from_pylist(rows, schema=instance_schema(environment))
    except (UnicodeEncodeError, pa.ArrowException) as error:
        return Finding(check, False, f"cannot be stored: {error}")
    read = [instance_of(environment, row, "row") for row in table.to_pylist()]
    changed = [instance for instance, copy in zip(every, read, strict=True) if instance != copy]
    detail = f"{changed[0].question!r:.80} is not" if changed else f"{len(every)} questions"
    return Finding(check, not changed, detail)


def _junk(environment: ModuleEnvironment, drawn: Drawn) -> Finding:
    for instances in drawn.values():
        instance, answers = instances[0], (*JUNK, instances[0].question)
        references = {instance.answer.strip() for instance in instances}
        verdicts = environment.judge([instance] * len(answers), answers)
        for answer, verdict in zip(answers, verdicts, strict=True):
            if verdict.category == SCORER_FAILED or (verdict.valid and answer.strip() not in references):
                problem = verdict.detail if verdict.category else "scores 1"
                detail = f"{answer!r:.40} to {instance.question!r:.80}: {problem}"
                return Finding("junk answers", False, detail)
    return Finding("junk answers", True, f"{len(JUNK) + 1} a stratum, none right, none breaks the scorer")


def _capacity(environment: ModuleEnvironment, drawn: Drawn) -> Iterator[Finding]:
    """Estimate the number of distinct instances from collisions (birthday problem)."""
    owners: dict[str, str] = {}
    for name, instances in drawn.items():
        label, ids = environment.space.label(name), Counter(instance.id for instance in instances)
        pairs = sum(n * (n - 1) // 2 for n in ids.values())
        size = ITEMS * (ITEMS - 1) / 2 / max(pairs, 1)
        detail = f"{len(ids)} of {ITEMS} are distinct, {'about' if pairs else 'more than'} {size:,.0f} in all"
        yield Finding(f"{label}: distinct questions", size >= MIN_DISTINCT, detail)
        shared = [instance for instance in instances if owners.setdefault(instance.id, name) != name]
        if shared:
            detail = f"{shared[0].question!r:.80} is in {owners[shared[0].id]!r} too; use separate ranges"
            yield Finding(f"{label}: in this stratum alone", False, detail)
