"""A plain rule that designs configs: the teacher of the tiny policy's engineer task.

It follows the guideline: most data where about half of the answers are valid, more of every knob where
answers are mostly valid. Where the context says how the instances fare that have the label a knob asks for,
that knob rises until most of those are valid. Every decision follows from the numbers of one stratum as they
are shown, whole percents and two digits, and its rationale cites them.
"""

from math import floor

from engineer.context import DesignContext
from envgen.breakdown import Counts
from envgen.config import SHARE, EnvConfig, Part
from envgen.space import Knob, Stratum

PARTS = ((10, 1), (30, 2), (70, 3), (90, 2), (101, 1))
"""(percent valid, parts of the data): of a stratum whose valid rate is below the first, and not below the one
before."""
READY, UNREADY = 30, 10
"""Percent valid from which a knob with a label rises, and below which it falls."""
LABEL_FAILS, LABEL_SOLVED = 50, 75
"""Of the instances with the label, the percent valid below which the knob rises by two levels, and from which
it stays."""
SOLVED, UNSOLVED = 85, 20
"""Percent valid from which a knob without a label rises, and below which it falls."""
DIGITS = 6
"""Of a level, so that three times 0.1 is 0.3."""


def teach(context: DesignContext) -> tuple[EnvConfig, str]:
    """The next config by rule, and a rationale that names each stratum, its rates, and what it gets."""
    counts, current = context.current.breakdown.strata, context.current.config
    data = {name: _data_parts(counts[name].valid_percent) for name in context.space.names}
    total = sum(data.values())
    parts, clauses = {}, []
    for stratum in context.space.strata:
        old, count = context.space.part(current, stratum.name), counts[stratum.name]
        knobs = {knob.name: _moved(knob, old[knob.name], count) for knob in stratum.knobs}
        parts[stratum.name] = Part.model_validate({SHARE: data[stratum.name] / total, **knobs})
        gets = _mix(data[stratum.name], stratum, knobs)
        clauses.append(f"{stratum.label} {_rates(stratum, count)}: {gets}.")
    return context.space.config(parts), " ".join(clauses)


def level(knob: Knob, value: float) -> int:
    """A value, as it is shown, in whole steps of the knob."""
    return floor(round(value, 2) * (1 / knob.step) + 0.5)  # 0.35 / 0.1 is a little less than 3.5


def at_level(knob: Knob, steps: int) -> float:
    """The value of a level, within the knob's range."""
    return knob.clamped(round(steps * knob.step, DIGITS))


def _data_parts(percent: int) -> int:
    return next(parts for below, parts in PARTS if percent < below)


def _moved(knob: Knob, old: float, part: Counts) -> float:
    steps = _label_steps(knob, part) if knob.label else _steps(part.valid_percent)
    return at_level(knob, level(knob, old) + steps)


def _steps(percent: int) -> int:
    """Levels by which a knob without a label moves."""
    return 1 if percent >= SOLVED else -1 if percent < UNSOLVED else 0


def _label_steps(knob: Knob, part: Counts) -> int:
    """Levels by which a knob with a label moves."""
    if part.valid_percent < READY:
        return -1 if part.valid_percent < UNREADY else 0
    labelled = _labelled(knob, part)
    if labelled is None:
        return 1
    return 2 if labelled < LABEL_FAILS else 1 if labelled < LABEL_SOLVED else 0


def _labelled(knob: Knob, part: Counts) -> int | None:
    """Percent valid of the instances with the knob's label; None if the context does not say it."""
    parts = part.split(knob.label.name) if knob.label else None
    return parts and parts[0].valid_percent


def _rates(stratum: Stratum, part: Counts) -> str:
    facts = [f"{part.valid_percent}% valid"]
    for knob in stratum.knobs:
        percent = _labelled(knob, part)
        facts += [] if percent is None else [f"{knob.word} {percent}%"]
    return ", ".join(facts)


def _mix(data: int, stratum: Stratum, knobs: dict[str, float]) -> str:
    """What the stratum gets, in the two digits of an answer: first the knobs that ask for a label."""
    ordered = sorted(stratum.knobs, key=lambda knob: knob.label is None)
    values = ", ".join(f"{knob.word} {knobs[knob.name]:.2f}" for knob in ordered)
    return f"{data} {'part' if data == 1 else 'parts'} of data" + (f" with {values}" if values else "")
