"""How numbers are written, everywhere: a rate, a difference, an interval, a change of config, a count, a time."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engineer.claims import Claims
from envgen.breakdown import Difference, Rate
from envgen.config import EnvConfig, SizeConfig
from envgen.mapf.verifier import FailureCategory

SPACE = "\u00a0"
PERCENT, POINTS = f"{SPACE}%", f"{SPACE}points"
UNDEFINED = "–"
KNOBS = {"data": "data_ratio", "holes": "hole_ratio", "waits": "wait_ratio"}
"""Word -> knob of a config."""


def percent(value: float) -> str:
    """A rate with one decimal: `42.3 %`."""
    return f"{100 * value:.1f}{PERCENT}"


def share(value: float) -> str:
    """A ratio of a config with as many decimals as it needs, one at most: `25 %`, `12.5 %`."""
    return f"{f'{100 * value:.1f}'.removesuffix('.0')}{PERCENT}"


def points(value: float) -> str:
    """A difference of rates in percentage points, always with its sign: `+11.3`, `−2.0`."""
    return signed(100 * value, 1)


def signed(value: float, digits: int) -> str:
    """A number with its sign: `+0.35`, `−2.0`; what rounds to zero is `+0.0`."""
    return f"{round(value, digits) + 0.0:+.{digits}f}".replace("-", "−")


def interval(rate: Rate) -> str:
    """The 95 % interval of a rate: `[38.1, 46.6]`."""
    return f"[{100 * rate.low:.1f},{SPACE}{100 * rate.high:.1f}]"


def points_interval(difference: Difference) -> str:
    """The 95 % interval of a difference: `[+8.9, +13.7]`."""
    return f"[{points(difference.low)},{SPACE}{points(difference.high)}]"


def rate_text(found: Rate, unit: str = PERCENT) -> str:
    """A rate with its interval, `42.3 % [38.1, 46.6]`; without unit where a heading has it."""
    return f"{100 * found.value:.1f}{unit} {interval(found)}"


def difference_text(found: Difference, unit: str = POINTS) -> str:
    """A difference with its interval, `+4.1 points [+1.3, +6.9]`; without unit where a heading has it."""
    return f"{points(found.value)}{unit} {points_interval(found)}"


def narrow(number: Rate | Difference | None, gap: str = " ") -> str:
    """Both without unit, for tables of a terminal: `42.3 [38.1,46.6]`, `+4.1 [+1.3,+6.9]`."""
    if number is None:
        return ""
    sign = "+" if isinstance(number, Difference) else ""
    return f"{100 * number.value:{sign}.1f}{gap}[{100 * number.low:{sign}.1f},{100 * number.high:{sign}.1f}]"


def p_value(value: float, equals: str = "") -> str:
    """`0.012`, `< 0.001`; `equals` stands before a number that is written out."""
    return f"{equals}{value:.3f}" if value >= 0.0005 else "< 0.001"


def count(number: int, noun: str) -> str:
    """`1 stage`, `2,000 stages`."""
    return f"{number:,}{SPACE}{noun}{'' if number == 1 else 's'}"


def short_count(number: float) -> str:
    """`870`, `12k`, `3.4M`."""
    for size, suffix in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.{int(number < 10 * size)}f}{suffix}"
    return f"{number:.0f}"


def duration(seconds: float) -> str:
    """Wall time in the largest unit that leaves at least one: `8 s`, `31 min`, `2.4 h`."""
    if seconds < 100:
        return f"{seconds:.{int(seconds < 10)}f}{SPACE}s"
    return f"{seconds / 60:.0f}{SPACE}min" if seconds < 6_000 else f"{seconds / 3600:.1f}{SPACE}h"


def claims(found: Claims) -> str:
    """How many claims of a rationale hold: `6 of 7 claims`."""
    return f"{found.true} of {count(found.checked, 'claim')}" if found.checked else "no checkable claim"


def label(category: FailureCategory) -> str:
    """A failure category in words."""
    return category.value.replace("_", " ")


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]], words: Iterable[str] = ()) -> str:
    """A Markdown table; the first column and those named in `words` are on the left, the others on the right."""
    left = {columns[0], *words}
    lines = [columns, ["---" if name in left else "---:" for name in columns], *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


@dataclass(frozen=True)
class Change:
    """One knob of one map size as shown; None where the config has no such map size."""

    old: str | None
    new: str | None

    @property
    def changed(self) -> bool:
        """Whether old and new differ as far as they are shown."""
        return self.old != self.new

    @property
    def text(self) -> str:
        """`30 %`, or `30 % → 35 %` if it changed."""
        return f"{self.old or 'none'} → {self.new or 'none'}" if self.changed else self.new or "none"


@dataclass(frozen=True)
class SizeChanges:
    """The knobs of one map size."""

    size: int
    knobs: tuple[Change, ...]
    """Those of `KNOBS`: data_ratio, hole_ratio, wait_ratio."""


def changes_between(old: EnvConfig, new: EnvConfig) -> tuple[SizeChanges, ...]:
    """What a new config changes, one entry a map size of either."""
    found = []
    for size in sorted(old.sizes.keys() | new.sizes.keys()):
        before, after = old.sizes.get(size), new.sizes.get(size)
        knobs = tuple(Change(_shown(before, knob), _shown(after, knob)) for knob in KNOBS.values())
        found.append(SizeChanges(size, knobs))
    return tuple(found)


def config_changes(old: EnvConfig, new: EnvConfig) -> str:
    """What a config changes, in words: `3x3: data 25 % → 40 %, holes 30 % → 20 %; 4x4: left out`, or `nothing`."""
    parts = []
    for row in changes_between(old, new):
        words = [f"{word} {knob.text}" for word, knob in zip(KNOBS, row.knobs, strict=True) if knob.changed]
        if row.size not in old.sizes or row.size not in new.sizes:
            words = ["new" if row.size in new.sizes else "left out"]
        parts += [f"{row.size}x{row.size}: {', '.join(words)}"] if words else []
    return "; ".join(parts) or "nothing"


def _shown(knobs: SizeConfig | None, knob: str) -> str | None:
    return None if knobs is None else share(getattr(knobs, knob))
