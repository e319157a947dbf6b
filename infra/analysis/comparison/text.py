"""The table of a comparison as text: for the terminal and for `comparison.md`."""

from infra.analysis.correlation import PILOT_SCORES
from infra.analysis.formats import duration, markdown_table, narrow, short_count
from infra.analysis.results import BASELINES, ArmResult, ComparisonResults, State

HEADINGS = ("engineer", "seeds", "rate", "final %", "area", "to random", "to fixed", "tokens", "time")
NOTE = (
    "final: at the end; area: mean height of the curve from stage 0 on, in %; to random, to fixed: points, "
    "paired by seed and instance. [95 % intervals] over seeds and instances. Tokens and time: a run, without "
    "the shared stage 0."
)
_SHORT = 3
"""Letters of a word for the best answers that the table has room for."""


def rows(results: ComparisonResults) -> list[tuple[str, ...]]:
    """A row for each arm and rate, valid and optimal, under `HEADINGS`."""
    return [row for arm in results.arms for row in _rows(results, arm)]


def _rows(results: ComparisonResults, arm: ArmResult) -> list[tuple[str, ...]]:
    failed = any(child.arm == arm.label and child.state is State.FAILED for child in results.children)
    seeds = f"{len(arm.seeds)}/{len(results.seeds)}{'!' if failed else ''}"
    tokens = short_count(sum(arm.tokens.values())) if arm.tokens else ""
    time = duration(arm.seconds) if arm.seconds is not None else ""
    valid = (arm.label, seeds, "valid", *_numbers(arm, "valid"), tokens, time)
    return (
        [valid, ("", "", _short(results.best), *_numbers(arm, "optimal"), "", "")]
        if results.best
        else [valid]
    )


def _short(best: str) -> str:
    return best if len(best) <= _SHORT else f"{best[:_SHORT]}."


def _numbers(arm: ArmResult, name: str) -> tuple[str, ...]:
    """Final rate, area under the curve, and differences to the baselines."""
    final, area = getattr(arm, name), getattr(arm, f"{name}_area")
    if final is None:
        return "-", "-", "", ""
    against = (getattr(arm.against.get(base), name, None) for base in BASELINES)
    return narrow(final), f"{100 * area.value:.1f}", *(narrow(found, gap="") for found in against)


def caption(results: ComparisonResults) -> str:
    """What the table's columns are, and which curricula failed."""
    best = f", and {results.best} ones ({_short(results.best)})" if results.best else ""
    failed = ", ".join(child.name for child in results.failed)
    said = [*([f"! failed: {failed}."] if failed else []), *pilot_lines(results)]
    return "\n".join([f"Valid answers{best}; {NOTE}", *said])


def pilot_lines(results: ComparisonResults) -> list[str]:
    """Whether the pilots' scores order the gains that followed, a sentence each."""
    return [
        f"Pilot: rank correlation of {PILOT_SCORES[found.score]} with the gain of the stage that followed "
        f"{found.value:+.2f} [{found.low:+.2f},{found.high:+.2f}], "
        f"{found.stages} stages of {found.runs} runs."
        for found in results.pilot_gain
    ]


def title(results: ComparisonResults) -> str:
    """Headline of the table."""
    judged = f"{results.stages} stages, validation on {results.instances} instances"
    return f"{results.comparison}: {judged}{shared_stage(results)}"


def shared_stage(results: ComparisonResults) -> str:
    """Which stage 0 the curricula go on from."""
    return {
        "one": f", shared stage 0 of seed {results.stage0_seed}",
        "per-seed": ", a shared stage 0 of each seed",
        "own": "",
    }[results.stage_0]


def markdown(results: ComparisonResults) -> str:
    """The table as Markdown."""
    table = markdown_table(HEADINGS, rows(results), words=("rate",))
    return f"# {title(results)}\n\n{table}\n\n{caption(results)}\n"
