"""The design question in words: a template for each module, which speaks of an environment in the words of
its `Space`. The paper does not publish its own; every sentence in `templates` is ours."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from engineer.context import MODULES, DesignContext, StageRecord, letters_of
from engineer.gate import Gate, name_of
from envgen.breakdown import Counts, format_alarms
from envgen.config import SHARE
from envgen.estimates import Difference, Rate
from envgen.space import Knob, Space, plural

MAX_STAGES = 4
"""Latest earlier stages that the history shows."""


def design_prompt(context: DesignContext, modules: str, gate: Gate = "off") -> str:
    """Return the user message that asks for the next config, with the modules of a context such as `FGHT`;
    ValueError if it is none."""
    letters = letters_of(modules)
    texts = [module_text(letter, context, stage_0="D" in letters) for letter in MODULES if letter in letters]
    return _render("question", context, modules=filter(None, texts), gate=gate)


def module_text(letter: str, context: DesignContext, *, stage_0: bool = False) -> str:
    """Return one context module in words; empty if there is nothing to say yet."""
    earlier = [record for record in context.history if record.stage > 0 or stage_0]
    pairs = pairwise([*earlier, context.current])
    before = {after.stage: record for record, after in pairs if after.stage == record.stage + 1}
    omitted = max(0, len(earlier) - MAX_STAGES)
    records = [*earlier[omitted:], context.current] if earlier else []
    return _render(MODULES[letter], context, records=records, omitted=omitted, before=before)


def _labelled(context: DesignContext) -> Iterator[tuple[Knob, dict[str, Counts]]]:
    """Yield each knob that asks for a label, with the counts of the strata that the label divides."""
    for knob in context.space.asked:
        strata = context.current.breakdown.strata.items()
        parts = {name: part for name, part in strata if knob.label and part.split(knob.label.name)}
        if parts:
            yield knob, parts


def _numbers(space: Space, record: StageRecord, name: str, before: StageRecord | None = None) -> str:
    """Return share and knobs of a stratum, each with its edit against the stage `before`, if given."""
    new, old = record.config.strata[name], before.config.strata.get(name) if before else None
    words = {SHARE: "data", **{knob.name: knob.word for knob in space.knobs}}
    numbers = []
    for knob, word in words.items():
        value, was = new.get(knob), old.get(knob) if old else None
        if value is not None:
            edit = "+0.00" if was is None else f"{value - was:+.2f}"
            numbers.append(f"{word} {value:.2f}" + ("" if edit in ("+0.00", "-0.00") else f" ({edit})"))
    return ", ".join(numbers)


def _ranges(space: Space, knob: Knob) -> str:
    """Return the range of a knob; where strata differ in it, which stratum has which."""
    pairs = [(own.range, s.name) for s in space.strata for own in s.knobs if own.name == knob.name]
    having = {text: [name for other, name in pairs if other == text] for text, _ in pairs}
    if having == {knob.range: list(space.names)}:
        return knob.range
    return "; ".join(f"{text} for {space.named(names)}" for text, names in having.items())


def _percent(rate: Rate) -> str:
    value, low, high = (f"{round(100 * number)}%" for number in (rate.value, rate.low, rate.high))
    return f"{value} [{low}, {high}]"


def _points(change: Difference) -> str:
    value, low, high = (f"{round(100 * number):+d}" for number in (change.value, change.low, change.high))
    return f"{value} points [{low}, {high}]"


def _render(template: str, context: DesignContext, **variables: Any) -> str:
    text = _TEMPLATES.get_template(f"{template}.j2").render(context=context, space=context.space, **variables)
    return text.strip()


_LOADER = FileSystemLoader(Path(__file__).parent / "templates")
_TEMPLATES = Environment(loader=_LOADER, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
_TEMPLATES.filters |= {"percent": _percent, "points": _points, "plural": plural}
_TEMPLATES.globals |= {"numbers": _numbers, "ranges": _ranges, "labelled": _labelled, "name_of": name_of}
_TEMPLATES.globals["format_alarms"] = format_alarms
_TEMPLATES.globals["percent_of"] = lambda count, n: f"{round(100 * count / n)}%"
