"""The design question in words. The paper does not publish its wording; every sentence in `templates` is
ours.

Each module is a template per wording; what it says of an environment are the words of its `Space`. A module
that exceeds its budget loses parts from its least informative end: the oldest stages, the strata whose valid
rate is nearest 0 or 1 (of the labels: the last), the end of a rationale, the last hyperparameters and
options. What is missing is said in the text, and in `Text.cuts`.
"""

import re
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from engineer.answer import MAX_RATIONALE
from engineer.context import VARIANTS, DesignContext, Module, StageRecord
from engineer.gate import name_of
from engineer.spec import Wording
from envgen.breakdown import Difference, Rate
from envgen.config import SHARE
from envgen.space import Knob, Space, plural

BUDGETS: dict[Module, dict[Wording, int]] = {
    Module.FAILURES: {"full": 1_400, "compact": 500},
    Module.GUIDELINE: {"full": 240, "compact": 100},
    Module.HISTORY: {"full": 2_400, "compact": 960},
    Module.HISTORY_WITHOUT_DEFAULT: {"full": 2_400, "compact": 960},
    Module.RATIONALE: {"full": 240, "compact": 60},
    Module.BOOKKEEPING: {"full": 80, "compact": 80},
    Module.WAITS: {"full": 480, "compact": 160},
    Module.TRAINING: {"full": 400, "compact": 140},
}
"""Tokens of each module at most, as `tokens` counts them.

In both wordings the failures and three earlier stages of eight strata with two knobs each fit. In `compact`,
with four such strata, a whole prompt and an answer of 160 tokens fit the 1,024 of the tiny policy, whatever
the stage."""
_PIECES = re.compile(r"[A-Za-z]+|\S")


class Text(NamedTuple):
    """A text and what was left out of it, one sentence each."""

    text: str
    cuts: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Parts:
    """What a module can do without: its parts from the most to the least informative."""

    parts: Sequence[Any] = ()
    variables: Callable[[Sequence[Any]], dict[str, Any]] = lambda parts: {}
    """The template's variables for the parts that fit."""
    left_out: Callable[[Sequence[Any]], str] = lambda dropped: ""
    """Names the parts that are not."""


def design_prompt(variant: str, context: DesignContext, wording: Wording) -> Text:
    """The user message that asks for the next config, with the modules of a context variant; KeyError if
    unknown."""
    modules = [module_text(module, context, wording) for module in VARIANTS[variant]]
    texts = [text for text, _ in modules if text]
    question = _render(wording, "question", context, modules=texts, max_rationale=MAX_RATIONALE)
    return Text(question, tuple(cut for _, cuts in modules for cut in cuts))


def module_text(module: Module, context: DesignContext, wording: Wording) -> Text:
    """One context module in words, within its budget; empty if there is nothing to say yet."""
    of, budget = _PARTS[module](module, context) if module in _PARTS else _Parts(), BUDGETS[module][wording]

    def text(length: int) -> str:
        note = of.left_out(of.parts[length:]) if length < len(of.parts) else ""
        return _render(wording, _template(module), context, note=note, **of.variables(of.parts[:length]))

    whole = text(len(of.parts))
    if not of.parts or tokens(whole) <= budget:
        return Text(whole)
    length = bisect(range(1, len(of.parts)), False, key=lambda count: tokens(text(count)) > budget)
    return Text(text(length), (f"{module}: {of.left_out(of.parts[length:])}, its budget is {budget} tokens",))


def tokens(text: str) -> int:
    """Tokens of a text, counted on the high side: whoever reads a prompt, it is the same.

    Each digit and each mark is one, a run of n Latin letters is n / 4 rounded up, any other character is as
    many as it has bytes in UTF-8; white space is none. Tokenizers of large models need fewer, since most
    words are one token.
    """
    return sum(
        -(-len(piece) // 4) if piece.isascii() else len(piece.encode(errors="replace"))
        for piece in _PIECES.findall(text)
    )


def _template(module: Module) -> Module:
    return Module.HISTORY if module is Module.HISTORY_WITHOUT_DEFAULT else module


def _failures(module: Module, context: DesignContext) -> _Parts:
    counts = {name: part for name, part in context.current.breakdown.strata.items() if part.n}
    ordered = sorted(counts, key=lambda name: abs(counts[name].valid / counts[name].n - 0.5))
    return _Parts(
        ordered,
        lambda parts: {"counts": {name: part for name, part in counts.items() if name in parts}},
        lambda dropped: _strata_left_out(context, [name for name in counts if name in dropped]),
    )


def _labels(module: Module, context: DesignContext) -> _Parts:
    """Per knob that asks for a label: the counts of the strata in which some instances have it, and some
    not."""
    counts, asked = context.current.breakdown.strata, context.space.asked
    split = {
        knob.name: [name for name, part in counts.items() if knob.label and part.split(knob.label.name)]
        for knob in asked
    }
    names = [name for name in counts if any(name in strata for strata in split.values())]

    def variables(parts: Sequence[str]) -> dict[str, Any]:
        pairs = ((knob, {name: counts[name] for name in split[knob.name] if name in parts}) for knob in asked)
        return {"labelled": [(knob, counted) for knob, counted in pairs if counted]}

    return _Parts(names, variables, lambda dropped: _strata_left_out(context, list(dropped)))


def _strata_left_out(context: DesignContext, names: list[str]) -> str:
    space = context.space
    return f"{_count(names, space.noun)} left out: {space.named(names)}"


def _history(module: Module, context: DesignContext) -> _Parts:
    records = [r for r in context.history if r.stage > 0 or module is Module.HISTORY]
    followers = [*records, context.current]
    before = {
        after.stage: earlier for earlier, after in pairwise(followers) if after.stage == earlier.stage + 1
    }
    return _Parts(
        records[::-1],
        lambda parts: {"records": parts[::-1], "before": before, "any": bool(records)},
        lambda dropped: f"{_count(dropped, 'earlier stage')} left out",
    )


def _rationale(module: Module, context: DesignContext) -> _Parts:
    text = context.previous_rationale
    ends = [word.end() for word in re.finditer(r"\S+", text)]
    return _Parts(
        ends,
        lambda parts: {"rationale": text if len(parts) == len(ends) else text[: parts[-1]] if parts else ""},
        lambda dropped: f"{_count(dropped, 'word')} left out",
    )


def _training(module: Module, context: DesignContext) -> _Parts:
    entries = [
        (kind, name, value)
        for kind in _NAMED_FACTS
        for name, value in _facts(context.training.get(kind)).items()
    ]

    def variables(parts: Sequence[tuple[str, str, Any]]) -> dict[str, Any]:
        return {of: {name: value for kind, name, value in parts if kind == of} for of in _NAMED_FACTS}

    def left_out(dropped: Sequence[tuple[str, str, Any]]) -> str:
        kinds = {of: [name for kind, name, _ in dropped if kind == of] for of in _NAMED_FACTS}
        return " and ".join(_count(of, kind[:-1]) for kind, of in kinds.items() if of) + " left out"

    return _Parts(entries, variables, left_out)


def _facts(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


_NAMED_FACTS = ("options", "hyperparameters")
"""Facts of the training that are many, each with a name; the last are the first to be left out."""

_PARTS: dict[Module, Callable[[Module, DesignContext], _Parts]] = {
    Module.FAILURES: _failures,
    Module.HISTORY: _history,
    Module.HISTORY_WITHOUT_DEFAULT: _history,
    Module.RATIONALE: _rationale,
    Module.TRAINING: _training,
    Module.WAITS: _labels,
}


def _count(things: Sequence[Any], name: str) -> str:
    return f"{len(things)} {name if len(things) == 1 else plural(name)}"


def _render(wording: Wording, template: str, context: DesignContext, **variables: Any) -> str:
    template_file = _TEMPLATES.get_template(f"{wording}/{template}.j2")
    return template_file.render(context=context, space=context.space, **variables).strip()


def _percent(rate: Rate) -> str:
    return f"{round(100 * rate.value)}% [{round(100 * rate.low)}%, {round(100 * rate.high)}%]"


def _points(change: Difference) -> str:
    value, low, high = (f"{round(100 * number):+d}" for number in (change.value, change.low, change.high))
    return f"{value} points [{low}, {high}]"


def _origin(record: StageRecord) -> str:
    """Where a stage started from, if not from the one before it."""
    if record.parent == record.stage - 1:
        return ""
    return f" (what came before it was undone; it started from {name_of(record.parent)})"


def _numbers(space: Space, record: StageRecord, name: str, before: StageRecord | None = None) -> str:
    """The share and the knobs of a stratum, each with its edit against the stage before, if one is given."""
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
    """The range of a knob; where strata differ in it, which stratum has which."""
    having: dict[str, list[str]] = {}
    for stratum in space.strata:
        for own in stratum.knobs:
            if own.name == knob.name:
                having.setdefault(own.range, []).append(stratum.name)
    if having == {knob.range: list(space.names)}:
        return knob.range
    return "; ".join(f"{text} for {space.named(names)}" for text, names in having.items())


_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    autoescape=False,
)
_TEMPLATES.filters |= {"percent": _percent, "points": _points, "plural": plural}
_TEMPLATES.globals |= {"numbers": _numbers, "origin": _origin, "ranges": _ranges}
