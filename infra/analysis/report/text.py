"""Sentences of the report."""

from engineer.gate import name_of
from envgen.breakdown import Difference, Rate
from infra.analysis.formats import SPACE, percent, points, points_interval
from infra.runs.results import CurriculumResults

_NUMBER_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def headline(results: CurriculumResults) -> str:
    """What the curriculum did to the valid rate, in a sentence that claims no more than the interval."""
    stage, final, gain, _ = results.final
    before, after = results.start.overall.valid_rate, final.overall.valid_rate
    said = _change("Valid rate on the validation set", before, after, gain, len(results.stages))
    rolled_back = stage != results.stages[-1].stage
    return f"{said} The gate rolled back: the run ends with {name_of(stage)}." if rolled_back else said


def best_headline(results: CurriculumResults, best: str) -> str:
    """The same for the rate of the best answers, which the family calls `best`."""
    _, final, _, gain = results.final
    before, after = results.start.overall.optimal_rate, final.overall.optimal_rate
    return _change(f"{best.capitalize()} rate", before, after, gain, len(results.stages))


def _change(what: str, before: Rate, after: Rate, gain: Difference, stages: int) -> str:
    number = _NUMBER_WORDS[stages] if stages < len(_NUMBER_WORDS) else str(stages)
    sentence = (
        f"{what} went from {percent(before.value)} to {percent(after.value)} over {number} "
        f"stage{'' if stages == 1 else 's'}: {points(gain.value)}{SPACE}points, "
        f"95{SPACE}% interval {points_interval(gain)}"
    )
    if gain.low <= 0 <= gain.high:
        return f"{sentence}, which includes zero: no gain is shown."
    return f"{sentence}." if gain.value > 0 else f"{sentence}: a loss."
