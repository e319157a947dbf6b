"""What a comparison sums up, publishes and shows, from curricula whose outcomes are known."""

import html
import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from report_page import Page
from rich.console import Console

from envgen.errors import DataError
from flows.commands.tables import SPARED, comparison_table
from flows.commands.terminal import fitted
from infra.analysis import gather as gathering
from infra.analysis.comparison.page import conclusions, write_page
from infra.analysis.gather import Finished, gather
from infra.analysis.results import ComparisonResults, Pair, read_comparison_results
from infra.analysis.spec import ComparisonSpec, plan
from infra.analysis.statistics import Effect
from infra.results import Made
from infra.tables import arms
from tasks import compare as publishing

SPEC = plan("micro", ["checkpoint", "random", "fixed", "levels"], [0, 1])
IDS = tuple("abcdefghij")


def outcomes(*correct: int) -> np.ndarray:
    """After each evaluation so many of ten answers are right."""
    return np.array([[n < count for n in range(10)] for count in correct])


def run(*correct: int, ids: tuple[str, ...] = IDS) -> Finished:
    rates = {"valid": outcomes(*correct), "optimal": outcomes(*(count // 2 for count in correct))}
    return Finished(
        outcomes=rates,
        final=1,
        ids=ids,
        made=Made(seconds=60, tokens=123),
    )


RUNS = {
    "checkpoint-V6-s0": run(2, 4, 8),
    "checkpoint-V6-s1": run(2, 4, 6),
    "random-s0": run(2, 4, 4),
    "random-s1": run(2, 4, 6),
    "fixed-s1": run(2, 4, 5),
}


FAILURES = {"fixed-s0": "killed <script>alert(1)</script>", "random-s0": "an old failure"}


def gathered(runs: dict[str, Finished], spec: ComparisonSpec = SPEC) -> ComparisonResults:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathering, "finished", lambda directory, preset: runs.get(directory.name))
        return gather(Path("runs"), spec, FAILURES)


@pytest.fixture(scope="module")
def results() -> ComparisonResults:
    return gathered(RUNS)


@pytest.fixture(scope="module")
def page(results: ComparisonResults, tmp_path_factory: pytest.TempPathFactory) -> Page:
    return Page(write_page(tmp_path_factory.mktemp("page"), results).read_text())


def test_rates_are_means_over_the_finished_seeds(results: ComparisonResults):
    checkpoint, random, fixed, levels = results.arms
    assert (checkpoint.seeds, fixed.seeds, levels.seeds) == ((0, 1), (1,), ())
    ends = [arm.valid.value if arm.valid else None for arm in results.arms]
    assert ends == pytest.approx([0.7, 0.5, 0.5, None])
    assert [child.valid for child in results.children if child.arm == checkpoint.label] == [0.8, 0.6]
    assert [rate.value for rate in checkpoint.valid_curve] == pytest.approx([0.2, 0.4, 0.7])
    assert random.optimal
    assert random.optimal.value == pytest.approx(0.25)


def test_differences_are_over_the_seeds_that_both_finished(results: ComparisonResults):
    pairs = {(pair.arm, pair.minus): (pair.valid.seeds, pair.valid.value) for pair in results.pairs}
    assert pairs == {
        ("checkpoint-V6", "random"): (2, pytest.approx(0.2)),
        ("fixed", "random"): (1, pytest.approx(-0.1)),
        ("checkpoint-V6", "fixed"): (1, pytest.approx(0.1)),
        ("random", "fixed"): (1, pytest.approx(0.1)),
    }, "seed 1: 6, 6 and 5"


def test_it_is_said_what_failed_and_what_waits(results: ComparisonResults):
    children = {child.name: (child.valid is not None, bool(child.reason)) for child in results.children}
    assert children["fixed-s0"] == (False, True)
    assert children["levels-s0"] == children["levels-s1"] == (False, False)
    assert children["random-s0"] == (True, False), "whatever went wrong before"
    assert [child.seed for child in results.failed] == [0]


def test_other_instances_are_not_compared():
    with pytest.raises(DataError, match="different instances"):
        gathered({"random-s0": run(2, 4, 4), "fixed-s0": run(2, 4, 4, ids=IDS[::-1])})


@pytest.mark.parametrize("width", [100, 80])
def test_the_table_fits_a_terminal_cuts_no_interval_and_marks_what_failed(
    results: ComparisonResults, width: int
):
    table, console = comparison_table(results), Console(width=width, file=io.StringIO())
    assert fitted(table, SPARED, width) <= width
    console.print(table)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown
    for part in ("checkpoint-V6", "to random", "to fixed", "+20.0[", "failed: fixed-s0"):
        assert part in shown
    left_out = [name for name in SPARED if name not in [column.header for column in table.columns]]
    assert left_out == list(SPARED[: len(left_out)])
    assert bool(left_out) == (width == 80)
    if not left_out:
        assert all(seeds in shown for seeds in ("2/2", "1/2!", "0/2"))


def test_a_baseline_and_a_rate_that_take_no_part_are_not_shown(
    results: ComparisonResults, page: Page, tmp_path: Path
):
    against_fixed = tuple(pair for pair in results.pairs if pair.minus == "fixed")
    fewer = results.model_copy(update={"pairs": against_fixed, "best": None})
    for shown, source in ((results, page.source), (fewer, write_page(tmp_path, fewer).read_text())):
        table, whole = arms(shown), (shown is results,) * 3
        assert ("Against random" in source, "against random" in table, "Optimal rate" in source) == whole
        assert "Against fixed" in source
        assert "Valid rate" in source
        assert "against fixed" in table
    assert list(arms(results)["rate"][:2]) == ["valid", "optimal"]
    assert set(arms(fewer)["rate"]) == {"valid"}


def test_the_page_and_its_figures_are_whole_and_safe(results: ComparisonResults, page: Page):
    assert not page.unclosed
    assert "<script>" not in page.source
    assert "killed &lt;script&gt;" in page.source
    curves, differences = ("\n".join(drawn.itertext()) for drawn in page.charts.values())
    assert "checkpoint-V6 (2 seeds)" in curves
    assert "fixed (1 seed)" in curves
    assert "levels" not in curves
    assert list(results.differences("valid")) == ["random", "fixed"]
    assert "checkpoint-V6" in differences
    assert all(f"minus {base}" in differences for base in ("random", "fixed"))


def test_the_page_says_who_is_ahead_and_leads_to_the_reports(results: ComparisonResults, page: Page):
    headline = html.unescape(re.findall("<h1>(.*?)</h1>", page.source)[0]).replace("\u00a0", " ")
    assert headline == conclusions(results)[0].replace("\u00a0", " ")
    assert re.search(r"Against fixed, in valid rate at the end: .*checkpoint-V6", headline)
    finished = {child.name for child in results.children if child.valid is not None}
    assert {f"{name}/report.html" for name in finished} == set(re.findall(r'href="([^"#]+)"', page.source))


def pair(value: float, reach: float = 0.02, minus: str = "fixed", p: float = 0.001) -> Pair:
    rest = {"error": 0.01, "freedom": 5, "seeds": 2, "p": p}
    effect = Effect(value=value, low=value - reach, high=value + reach, **rest)
    return Pair(arm="new", minus=minus, valid=effect, optimal=effect)


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ((pair(0.05, 0.04),), "Against fixed, {}: ahead of it: new by +5.0 points [+1.0, +9.0]."),
        ((pair(-0.05, 0.04),), "Against fixed, {}: behind it: new by −5.0 points [−9.0, −1.0]."),
        ((pair(0.01, 0.04, p=0.5),), "Against fixed, {}: not told apart from it: new."),
        (
            (pair(0.05, minus="old"), pair(0.01, minus="other", p=0.5)),
            "Against old, {}: ahead of it: new by +5.0 points [+3.0, +7.0]."
            " Against other, {}: not told apart from it: new.",
        ),
        (
            (pair(0.05, p=0.03), pair(0.04, minus="random", p=0.03)),
            "Against fixed, {}: not told apart from it: new."
            " Against random, {}: not told apart from it: new.",
        ),
        ((), "One engineer variant has finished: there is nothing to compare it with."),
    ],
)
def test_only_an_adjusted_p_value_below_5_percent_puts_an_arm_ahead_or_behind(
    results: ComparisonResults, pairs: tuple[Pair, ...], said: str
):
    text = conclusions(results.model_copy(update={"pairs": pairs}))[0].replace("\u00a0", " ")
    assert text == said.replace("{}", "in valid rate at the end")


def test_without_a_baseline_the_page_compares_arms_with_each_other(
    results: ComparisonResults, tmp_path: Path
):
    pairs = (pair(0.05, minus="old"), pair(0.01, minus="other"))
    page = write_page(tmp_path, results.model_copy(update={"pairs": pairs})).read_text()
    rows = re.findall('<th>(.*?)</th><td data-name="minus">(old|other)</td>', page)
    assert rows == [("new", "old"), ("new", "other")]


def test_the_page_says_when_on_what_and_with_which_command_it_was_made(tmp_path: Path):
    made = {"finished": "2026-01-02T03:04:05+00:00", "code": ("0.1.0+abc",), "machines": ("Linux, 2 cores",)}
    runs = {name: replace(one, made=Made(**made, seconds=9)) for name, one in RUNS.items()}
    spec = plan("micro", ["checkpoint:V1", "random"], [0, 1], name="beta", stage_0="per-seed")
    page = html.unescape(write_page(tmp_path, gathered(runs, spec)).read_text()).replace("\u00a0", " ")
    facts = dict(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", page))
    provenance = ("2026-01-02 03:04:05 UTC", "0.1.0+abc", "Linux, 2 cores")
    assert tuple(list(facts.values())[-3:]) == provenance, "random alone has finished, twice"
    assert "<pre>envwright compare beta</pre>" in page


def test_nothing_finished_is_shown_as_that(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(gathering, "finished", lambda directory, preset: None)
    results = publishing.publish_comparison.fn(tmp_path, SPEC, {"fixed-s0": "why"})
    assert results == read_comparison_results(tmp_path)
    assert "Nothing has finished yet" in (tmp_path / "comparison.html").read_text()
    assert publishing.earlier_failures(tmp_path) == {"fixed-s0": "why"}
