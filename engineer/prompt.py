"""The design question in words. The paper does not publish its wording; every sentence in `templates` is ours.

Each module is a template per wording. A module that exceeds its budget loses parts from its least informative end: the
oldest stages, the map sizes whose valid rate is nearest 0 or 1 (of the waits: the largest), the end of a rationale, the last hyperparameters. What is
missing is said in the text, and in `Text.cuts`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from engineer.answer import KNOBS, MAX_RATIONALE
from engineer.budgets import BUDGETS, tokens
from engineer.context import VARIANTS, DesignContext, Module, StageRecord
from engineer.spec import Wording
from envgen.breakdown import Difference, Rate


class Text(NamedTuple):
    """A text and what was left out of it, one sentence each."""

    text: str
    cuts: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Parts:
    """What a module can do without: its parts from the most to the least informative."""

    parts: Sequence[Any] = ()
    shown: Callable[[Sequence[Any]], dict[str, Any]] = lambda kept: {}
    """The template's variables, given the parts that are kept."""
    left_out: Callable[[Sequence[Any]], str] = lambda dropped: ""
    """Names the parts that are not."""


def design_prompt(variant: str, context: DesignContext, wording: Wording) -> Text:
    """The user message that asks for the next config, with the modules of a context variant; KeyError if unknown."""
    modules = [module_text(module, context, wording) for module in VARIANTS[variant]]
    question = _render(wording, "question", context=context, modules=[text for text, _ in modules if text], knobs=KNOBS, max_rationale=MAX_RATIONALE)
    return Text(question, tuple(cut for _, cuts in modules for cut in cuts))


def template_text(variant: str, wording: Wording) -> str:
    """The templates behind the design questions of a context variant, each under its name; KeyError if unknown."""
    assert _TEMPLATES.loader is not None
    names = [f"{wording}/{name}.j2" for name in ("question", *map(_template, VARIANTS[variant]))]
    return "\n\n".join(f"{{# {name} #}}\n{_TEMPLATES.loader.get_source(_TEMPLATES, name)[0].strip()}" for name in names)


def module_text(module: Module, context: DesignContext, wording: Wording) -> Text:
    """One context module in words, within its budget; empty if there is nothing to say yet."""
    of, budget = _PARTS.get(module, _nothing)(module, context), BUDGETS[wording][module]

    def text(kept: int) -> str:
        note = of.left_out(of.parts[kept:]) if kept < len(of.parts) else ""
        return _render(wording, _template(module), context=context, note=note, **of.shown(of.parts[:kept]))

    kept = _most(len(of.parts), lambda count: tokens(text(count)) <= budget)
    if kept == len(of.parts):
        return Text(text(kept))
    return Text(text(kept), (f"{module}: {of.left_out(of.parts[kept:])}, its budget is {budget} tokens",))


def _template(module: Module) -> Module:
    return Module.HISTORY if module is Module.HISTORY_WITHOUT_DEFAULT else module


def _most(count: int, fits: Callable[[int], bool]) -> int:
    """How many of the parts fit; 0 if none does. A note on what is left out counts too, so all may fit where all but one do not."""
    if fits(count):
        return count
    low, high = 0, max(count - 1, 0)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _nothing(module: Module, context: DesignContext) -> _Parts:
    return _Parts()


def _failures(module: Module, context: DesignContext) -> _Parts:
    sizes = {size: b for size, b in context.current.breakdown.sizes.items() if b.n}
    ordered = sorted(sizes, key=lambda size: (abs(sizes[size].valid / sizes[size].n - 0.5), size))
    return _Parts(
        ordered,
        lambda kept: {"sizes": {size: b for size, b in sizes.items() if size in kept}},
        lambda dropped: f"{_count(dropped, 'map size')} left out: {', '.join(f'{size}x{size}' for size in sorted(dropped))}",
    )


def _waits(module: Module, context: DesignContext) -> _Parts:
    sizes = {size: b for size, b in context.current.breakdown.sizes.items() if b.waiting_rate and b.moving_rate}
    return _Parts(
        list(sizes),
        lambda kept: {"sizes": {size: sizes[size] for size in kept}},
        lambda dropped: f"{_count(dropped, 'map size')} left out: {', '.join(f'{size}x{size}' for size in dropped)}",
    )


def _history(module: Module, context: DesignContext) -> _Parts:
    records = [r for r in context.history if r.stage > 0 or module is Module.HISTORY]
    followers = [*records, context.current]
    before = {after.stage: earlier for earlier, after in pairwise(followers) if after.stage == earlier.stage + 1}
    return _Parts(
        records[::-1],
        lambda kept: {"records": kept[::-1], "before": before, "any": bool(records)},
        lambda dropped: f"{_count(dropped, 'earlier stage')} left out",
    )


def _rationale(module: Module, context: DesignContext) -> _Parts:
    text = context.previous_rationale
    ends = [word.end() for word in re.finditer(r"\S+", text)]
    return _Parts(
        ends,
        lambda kept: {"rationale": text if len(kept) == len(ends) else text[: kept[-1]] if kept else ""},
        lambda dropped: f"{_count(dropped, 'word')} left out",
    )


def _training(module: Module, context: DesignContext) -> _Parts:
    given = context.training.get("hyperparameters")
    named = list(given.items()) if isinstance(given, dict) else []
    return _Parts(named, lambda kept: {"hyperparameters": dict(kept)}, lambda dropped: f"{_count(dropped, 'hyperparameter')} left out")


_PARTS: dict[Module, Callable[[Module, DesignContext], _Parts]] = {
    Module.FAILURES: _failures,
    Module.HISTORY: _history,
    Module.HISTORY_WITHOUT_DEFAULT: _history,
    Module.RATIONALE: _rationale,
    Module.TRAINING: _training,
    Module.WAITS: _waits,
}


def _count(things: Sequence[Any], name: str) -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def _render(wording: Wording, template: str, **variables: Any) -> str:
    return _TEMPLATES.get_template(f"{wording}/{template}.j2").render(**variables).strip()


def _percent(rate: Rate) -> str:
    return f"{round(100 * rate.value)}% [{round(100 * rate.low)}%, {round(100 * rate.high)}%]"


def _points(change: Difference) -> str:
    return f"{round(100 * change.value):+d} points [{round(100 * change.low):+d}, {round(100 * change.high):+d}]"


def _origin(record: StageRecord) -> str:
    """Where a stage started from, if not from the one before it."""
    if record.parent == record.stage - 1:
        return ""
    return f" (what came before it was undone; it started from {'the start policy' if record.parent < 0 else f'stage {record.parent}'})"


def _knobs(record: StageRecord, size: int, before: StageRecord | None) -> str:
    """The knobs of a map size, each with its edit against the stage before."""
    new, old = record.config.sizes[size], before.config.sizes.get(size) if before else None
    words = []
    for name, knob in zip(("data", "holes", "waits"), KNOBS, strict=True):
        edit = f"{getattr(new, knob) - getattr(old, knob):+.2f}" if old else "+0.00"
        words.append(f"{name} {getattr(new, knob):.2f}" + ("" if edit in ("+0.00", "-0.00") else f" ({edit})"))
    return ", ".join(words)


_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
)
_TEMPLATES.filters |= {"percent": _percent, "points": _points}
_TEMPLATES.globals |= {"knobs_of": _knobs, "origin": _origin}
