"""Checks of a generator file by running it: `envwright check`."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain, product
from pathlib import Path
from typing import NamedTuple

from envgen.environment import Instance, wrong_reference
from envgen.errors import ConfigError, validated
from envgen.module.environment import SCORER_FAILED, ModuleEnvironment, Options

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
    """Yield findings about a file; they end early if its generator fails. ConfigError if the file cannot be
    loaded."""
    options = validated(Options, {"file": file}, str(file))
    environment, other = ModuleEnvironment(options), ModuleEnvironment(options)
    other.worker.hash_seed = "1"
    try:
        yield _ends(environment)
        drawn = _draw(environment)
        instances = [*chain.from_iterable(drawn.values())]
        for drawer, how in ((environment, "twice in one process"), (other, "with another hash seed")):
            yield _deterministic(environment, instances, _draw(drawer), f"the same again, {how}")
        yield _references(environment, instances)
        yield _junk(environment, drawn)
        for name, members in drawn.items():
            [(answer, _)] = Counter(instance.answer for instance in members).most_common(1)
            verdicts = environment.judge(members, [answer] * ITEMS)
            rate = sum(verdict.valid for verdict in verdicts) / ITEMS
            detail = f"the commonest answer is right for {rate:.1%} of the questions"
            yield Finding(f"{name}: one answer to all", rate <= GUESS_LIMIT, detail)
        yield from _capacity(environment, drawn)
    except ConfigError as error:
        yield Finding("draws and scores", False, str(error))
    finally:
        environment.worker.close()
        other.worker.close()


def _ends(environment: ModuleEnvironment) -> Finding:
    """Draw five instances at each combination of the ends of the knobs."""
    ends = [(s.name, corner) for s in environment.space.strata for corner in environment.corners(s)]
    for end, seed in product(ends, range(5)):
        environment.entry(*end, seed)
    return Finding("ends of the knobs", True, f"{len(ends)} combinations, 5 questions of each")


def _draw(environment: ModuleEnvironment) -> Drawn:
    """Draw instances of all strata; of a whole knob at 1.5 half get 1, half 2, independently."""
    drawn = Drawn()
    for stratum, seed in product(environment.space.strata, range(ITEMS)):
        bits = [(knob, seed >> place & 1) for place, knob in enumerate(stratum.knobs)]
        knobs = {knob.name: (knob.low + knob.high + (knob.whole and bit)) / 2 for knob, bit in bits}
        drawn.setdefault(stratum.name, []).append(environment.entry(stratum.name, knobs, seed))
    return drawn


def _deterministic(
    environment: ModuleEnvironment, instances: list[Instance], again: Drawn, check: str
) -> Finding:
    for number, pair in enumerate(zip(instances, chain.from_iterable(again.values()), strict=True)):
        for (field, before), (_, after) in zip(*pair, strict=True):
            if before != after:
                place = f"{environment.space.label(pair[0].stratum)}, seed {number % ITEMS}"
                change = f"{field} was {before!r:.80}, then {after!r:.80}"
                remedy = "take all randomness from rng, and iterate no set"
                return Finding(check, False, f"{place}: {change}; {remedy}")
    return Finding(check, True, f"{ITEMS} questions of each stratum")


def _references(environment: ModuleEnvironment, instances: list[Instance]) -> Finding:
    detail = f"{len(instances)} references"
    if wrong := wrong_reference(environment, instances):
        instance, verdict = wrong
        detail = f"{instance.answer!r:.80} to {instance.question!r:.80}: {verdict.category}, {verdict.detail}"
    return Finding("references score 1", not wrong, detail)


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
