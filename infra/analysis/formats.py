"""How numbers are written: a rate, a difference, an interval, a change of config, a count, a time."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from envgen.breakdown import Difference, Rate
from envgen.config import SHARE, EnvConfig
from envgen.space import Knob, Space

SPACE = "\u00a0"
PERCENT, POINTS = f"{SPACE}%", f"{SPACE}points"


def hundred(value: float) -> str:
    """A rate in percent without its unit, where a heading has it: `42.3`."""
    return f"{100 * value:.1f}"


def percent(value: float) -> str:
    """A rate with one decimal: `42.3 %`."""
    return f"{hundred(value)}{PERCENT}"


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


def file_size(size: float) -> str:
    """Bytes in the largest unit that leaves at least one: `870 B`, `12 kB`, `3.4 MB`."""
    units = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))
    unit, name = next((one for one in units if size >= one[0]), units[-1])
    return f"{size / unit:.{int(unit > 1 and size < 10 * unit)}f}{SPACE}{name}"


def duration(seconds: float) -> str:
    """Wall time in the largest unit that leaves at least one: `8 s`, `31 min`, `2.4 h`, `5 days`."""
    if seconds < 100:
        return f"{seconds:.{int(seconds < 10)}f}{SPACE}s"
    if seconds < 6_000:
        return f"{seconds / 60:.0f}{SPACE}min"
    hours = seconds / 3600
    return f"{hours:.1f}{SPACE}h" if hours < 100 else f"{hours / 24:.0f}{SPACE}days"


def label(name: str) -> str:
    """A failure category or a term in words: `parse error`."""
    return name.replace("_", " ")


def rate_names(best: str | None) -> dict[str, str]:
    """The rates that there are, and their words; `best` is what a family calls optimal answers."""
    return {"valid": "valid"} | ({"optimal": best} if best else {})


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]], words: Iterable[str] = ()) -> str:
    """A Markdown table; the first column and those named in `words` are on the left."""
    left = {columns[0], *words}
    lines = [columns, ["---" if name in left else "---:" for name in columns], *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


@dataclass(frozen=True)
class Change:
    """One number of one stratum as shown; None where the config has no such number."""

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
class StratumChanges:
    """The numbers of one stratum."""

    name: str
    label: str
    knobs: tuple[Change, ...]
    """Those of `Space.numbers`: data_ratio, then the knobs."""

    @property
    def changed(self) -> bool:
        """Whether one of them did."""
        return any(knob.changed for knob in self.knobs)


def is_share(knob: Knob) -> bool:
    """Whether a knob is a share, which is written in percent."""
    return knob.low >= 0 and knob.high <= 1


def setting(knob: Knob, value: float) -> str:
    """The value of a knob: `12.5 %`, or `3` of one that is no share."""
    return share(value) if is_share(knob) else f"{value:g}"


def number_words(space: Space) -> tuple[str, ...]:
    """Words for `Space.numbers`: `data`, then those of the knobs."""
    return ("data", *(knob.word for knob in space.knobs))


def changes_between(space: Space, old: EnvConfig, new: EnvConfig) -> tuple[StratumChanges, ...]:
    """What a new config changes, one entry a stratum of either."""
    found = []
    for name in named_strata(space, (old, new)):
        knobs = tuple(
            Change(*(_shown(space, config, name, number) for config in (old, new)))
            for number in space.numbers
        )
        found.append(StratumChanges(name, space.label(name), knobs))
    return tuple(found)


def named_strata(space: Space, configs: Iterable[EnvConfig]) -> list[str]:
    """The strata that configs name, in the order of the space; those that it does not have are last."""
    named = dict.fromkeys(name for config in configs for name in config.strata)
    return [
        *(name for name in space.names if name in named),
        *(name for name in named if name not in space.names),
    ]


def config_changes(space: Space, old: EnvConfig, new: EnvConfig) -> str:
    """What a config changes: `2 terms: data 25 % → 40 %, digits 3 → 2; 3 terms: left out`, or `nothing`."""
    parts = []
    for row in changes_between(space, old, new):
        numbers = zip(number_words(space), row.knobs, strict=True)
        words = [f"{word} {number.text}" for word, number in numbers if number.changed]
        if row.name not in old.strata or row.name not in new.strata:
            words = ["new" if row.name in new.strata else "left out"]
        parts += [f"{row.label}: {', '.join(words)}"] if words else []
    return "; ".join(parts) or "nothing"


def _shown(space: Space, config: EnvConfig, name: str, number: str) -> str | None:
    part = config.strata.get(name)
    value = None if part is None else part.get(number)
    if value is None or number == SHARE:
        return None if value is None else share(value)
    return setting(next(knob for knob in space.knobs if knob.name == number), value)
