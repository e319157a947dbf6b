"""The table of a comparison as text: for the terminal and for `comparison.md`."""

from envgen.breakdown import Difference
from infra.analysis.comparison.results import BASELINES, ComparisonResults, EngineerResult, State
from infra.analysis.report.text import duration, with_interval

HEADINGS = ("engineer", "seeds", "rate", "final %", "area", "to random", "to fixed", "tokens", "time")
NOTE = (
    "Valid plans, and optimal ones (opt.); final: at the end; area: mean height of the curve from stage 0 on, in %; to random, to "
    "fixed: points, paired by seed and instance. [95 % intervals] from resampling seeds and instances. Tokens and time: a run, "
    "without the shared stage 0."
)
SCORES = {"advantage": "the mean |advantage|", "mixed": "the share of groups with mixed rewards"}


def rows(results: ComparisonResults) -> list[tuple[str, ...]]:
    """Two rows for each engineer variant, valid and optimal, under `HEADINGS`."""
    return [row for engineer in results.engineers for row in _engineer(results, engineer)]


def _engineer(results: ComparisonResults, engineer: EngineerResult) -> list[tuple[str, ...]]:
    seeds = f"{len(engineer.seeds)}/{len(results.seeds)}" + failed_mark(results, engineer.label)
    tokens = short_count(sum(engineer.tokens.values())) if engineer.tokens else ""
    time = duration(engineer.seconds) if engineer.seconds is not None else ""
    return [
        (engineer.label, seeds, "valid", *_numbers(engineer, "valid"), tokens, time),
        ("", "", "opt.", *_numbers(engineer, "optimal"), "", ""),
    ]


def _numbers(engineer: EngineerResult, name: str) -> tuple[str, str, str, str]:
    """Final rate, area under the curve, and differences to the baselines."""
    final, area = (engineer.valid, engineer.valid_area) if name == "valid" else (engineer.optimal, engineer.optimal_area)
    if final is None or area is None:
        return "-", "-", "", ""
    to_random, to_fixed = (with_interval(_to(engineer, base, name), "+", gap="") for base in BASELINES)
    return with_interval(final), f"{100 * area.value:.1f}", to_random, to_fixed


def _to(engineer: EngineerResult, baseline: str, name: str) -> Difference | None:
    against = engineer.against.get(baseline)
    return against and (against.valid if name == "valid" else against.optimal)


def failed_mark(results: ComparisonResults, label: str) -> str:
    """`!` if a curriculum of this engineer variant failed."""
    return "!" if any(child.engineer == label and child.state is State.FAILED for child in results.children) else ""


def caption(results: ComparisonResults) -> str:
    """What the table's columns are, and which curricula failed."""
    failed = ", ".join(f"{child.engineer}-s{child.seed}" for child in results.failed)
    said = pilot_lines(results)
    return NOTE + (f"\n! failed: {failed}." if failed else "") + "".join(f"\n{line}" for line in said)


def pilot_lines(results: ComparisonResults) -> list[str]:
    """Whether the pilots' scores order the gains that followed, a sentence each."""
    return [
        f"Pilot: rank correlation of {SCORES[found.score]} with the gain of the stage that followed {found.value:+.2f} "
        f"[{found.low:+.2f},{found.high:+.2f}], {found.stages} stages of {found.runs} runs."
        for found in results.pilot_gain
    ]


def title(results: ComparisonResults) -> str:
    """Headline of the table."""
    return f"{results.comparison}: {results.stages} stages, validation on {results.instances} instances, shared stage 0 of seed {results.stage0_seed}"


def markdown(results: ComparisonResults) -> str:
    """The table as Markdown."""
    lines = [HEADINGS, tuple("---" if heading in ("engineer", "rate") else "---:" for heading in HEADINGS), *rows(results)]
    table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return f"# {title(results)}\n\n{table}\n\n{caption(results)}\n"


def short_count(number: float) -> str:
    """`870`, `12k`, `3.4M`."""
    for size, suffix in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f}{suffix}" if number < 10 * size else f"{number / size:.0f}{suffix}"
    return f"{number:.0f}"
