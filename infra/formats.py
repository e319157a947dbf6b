"""How numbers are written: a rate, a difference, an interval, a count, a size, a time."""

from collections.abc import Sequence

from envgen.estimates import Difference, Rate

SPACE = "\u00a0"


def percent(value: float) -> str:
    """A rate with one decimal: `42.3 %`."""
    return f"{100 * value:.1f}{SPACE}%"


def share(value: float) -> str:
    """A ratio of a config with as many decimals as it needs, one at most: `25 %`, `12.5 %`."""
    return f"{f'{100 * value:.1f}'.removesuffix('.0')}{SPACE}%"


def points(value: float) -> str:
    """A difference of rates in percentage points, always with its sign: `+11.3`, `−2.0`; zero is `+0.0`."""
    return f"{round(100 * value, 1) + 0.0:+.1f}".replace("-", "−")


def interval(number: Rate | Difference) -> str:
    """The 95 % interval of a rate, `[38.1, 46.6]`, or of a difference, `[+8.9, +13.7]`."""
    if isinstance(number, Difference):
        return f"[{points(number.low)},{SPACE}{points(number.high)}]"
    return f"[{100 * number.low:.1f},{SPACE}{100 * number.high:.1f}]"


def estimate(number: Rate | Difference) -> str:
    """A number with its interval: `42.3 % [38.1, 46.6]`, `+4.1 points [+1.3, +6.9]`."""
    if isinstance(number, Difference):
        return f"{points(number.value)}{SPACE}points {interval(number)}"
    return f"{percent(number.value)} {interval(number)}"


def narrow(number: Rate | Difference | None) -> str:
    """The same for tables of a terminal: `42.3 [38.1,46.6]`, `+4.1[+1.3,+6.9]`; empty for None."""
    if number is None:
        return ""
    sign, gap = ("+", "") if isinstance(number, Difference) else ("", " ")
    return f"{100 * number.value:{sign}.1f}{gap}[{100 * number.low:{sign}.1f},{100 * number.high:{sign}.1f}]"


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
    """Wall time in the largest unit that leaves at least one: `8 s`, `31 min`, `2.4 h`, `5 days`."""
    if seconds < 100:
        return f"{seconds:.{int(seconds < 10)}f}{SPACE}s"
    if seconds < 6_000:
        return f"{seconds / 60:.0f}{SPACE}min"
    hours = seconds / 3600
    return f"{hours:.1f}{SPACE}h" if hours < 100 else f"{hours / 24:.0f}{SPACE}days"


def label(name: str) -> str:
    """A failure category or a reward component in words: `parse error`."""
    return name.replace("_", " ")


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def rate_names(best: str | None) -> dict[str, str]:
    """The rates of an environment and their words; `best` is its word for optimal answers."""
    return {"valid": "valid"} | ({"optimal": best} if best else {})


def figure_names(best: str | None) -> dict[str, str]:
    """The figures of a comparison and their words."""
    return rate_names(best) | {
        "hardest": "valid, hardest quarter",
        "area": "mean over tokens",
        "validation": "valid, validation set",
    }
