"""Numbers and sentences of the report."""

from engineer.claims import Claims
from engineer.gate import name_of
from envgen.breakdown import Difference, Rate
from envgen.verifier import FailureCategory
from infra.runs.results import CurriculumResults

SPACE = "\u00a0"
_NUMBER_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def percent(value: float) -> str:
    """A rate with one decimal: `42.3 %`."""
    return f"{100 * value:.1f}{SPACE}%"


def share(value: float) -> str:
    """A ratio of a config with as many decimals as it needs, one at most: `25 %`, `12.5 %`."""
    return f"{f'{100 * value:.1f}'.removesuffix('.0')}{SPACE}%"


def interval(rate: Rate) -> str:
    """The 95 % interval of a rate: `[38.1, 46.6]`."""
    return f"[{100 * rate.low:.1f},{SPACE}{100 * rate.high:.1f}]"


def with_interval(number: Rate | Difference | None, sign: str = "", gap: str = " ") -> str:
    """A rate, or with the sign `+` a difference, in percent with its interval, as tables in plain text have it: `42.3 [38.1,46.6]`."""
    if number is None:
        return ""
    return f"{100 * number.value:{sign}.1f}{gap}[{100 * number.low:{sign}.1f},{100 * number.high:{sign}.1f}]"


def points(value: float) -> str:
    """A difference of rates in percentage points, always with its sign: `+11.3`, `−2.0`."""
    return signed(100 * value, 1)


def signed(value: float, digits: int) -> str:
    """A number with its sign: `+0.35`, `−2.0`; what rounds to zero is `+0.0`."""
    return f"{round(value, digits) + 0.0:+.{digits}f}".replace("-", "−")


def points_interval(difference: Difference) -> str:
    """The 95 % interval of a difference: `[+8.9, +13.7]`."""
    return f"[{points(difference.low)},{SPACE}{points(difference.high)}]"


def count(number: int, noun: str) -> str:
    """`1 stage`, `2,000 stages`."""
    return f"{number:,}{SPACE}{noun}{'' if number == 1 else 's'}"


def claims(found: Claims) -> str:
    """How many claims of a rationale hold: `6 of 7 claims`."""
    return f"{found.true} of {count(found.checked, 'claim')}" if found.checked else "no checkable claim"


def duration(seconds: float) -> str:
    """Wall time in the largest unit that leaves at least one: `8 s`, `31 min`, `2.4 h`."""
    if seconds < 100:
        return f"{seconds:.0f}{SPACE}s" if seconds >= 10 else f"{seconds:.1f}{SPACE}s"
    return f"{seconds / 60:.0f}{SPACE}min" if seconds < 6_000 else f"{seconds / 3600:.1f}{SPACE}h"


def label(category: FailureCategory) -> str:
    """A failure category in words."""
    return category.value.replace("_", " ")


def headline(results: CurriculumResults) -> str:
    """What the curriculum did to the valid rate, in one sentence that claims no more than the interval allows."""
    _, final, gain, _ = results.final
    return _change("Valid rate on the validation set", results.start.overall.valid_rate, final.overall.valid_rate, gain, len(results.stages)) + _ends_with(
        results
    )


def optimal_headline(results: CurriculumResults) -> str:
    """The same for the optimal rate."""
    _, final, _, gain = results.final
    return _change("Optimal rate", results.start.overall.optimal_rate, final.overall.optimal_rate, gain, len(results.stages))


def _ends_with(results: CurriculumResults) -> str:
    stage = results.final.stage
    return "" if stage == results.stages[-1].stage else f" The gate rolled back: the run ends with {name_of(stage)}."


def _change(what: str, before: Rate, after: Rate, gain: Difference, stages: int) -> str:
    number = _NUMBER_WORDS[stages] if stages < len(_NUMBER_WORDS) else str(stages)
    sentence = (
        f"{what} went from {percent(before.value)} to {percent(after.value)} over {number} stage{'' if stages == 1 else 's'}: "
        f"{points(gain.value)}{SPACE}points, 95{SPACE}% interval {points_interval(gain)}"
    )
    if gain.low <= 0 <= gain.high:
        return f"{sentence}, which includes zero: no gain is shown."
    return f"{sentence}." if gain.value > 0 else f"{sentence}: a loss."
