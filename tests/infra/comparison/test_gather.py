"""What a comparison sums up, publishes and shows, from curricula whose outcomes are known."""

import html
import io
import re
from pathlib import Path

import numpy as np
import pytest
from factories import asked, finished_run, instances, rollouts, shares, with_results
from report_page import Page
from rich.console import Console
from support.comparisons import comparison

from envgen.estimates import Difference, difference, rate
from envgen.files import write_json
from flows.commands.tables import comparison_table
from infra.comparison.gather import gather
from infra.comparison.page import conclusions, write_page
from infra.comparison.results import ComparisonResults, Pair, read_comparison_results
from infra.comparison.spec import ComparisonSpec
from infra.report.page import write_report
from infra.runs.files import RESULTS
from infra.tables import arms, overview, rates
from tasks import compare as publishing

ENGINEERS = ("checkpoint", "random", "fixed", "levels")
SPEC = comparison(*ENGINEERS, seeds=[0, 1], settings={"stages": 2})
RUNS = {"checkpoint-V6-s0": (2, 4, 8), "checkpoint-V6-s1": (2, 4, 6)}
RUNS |= {"random-s0": (2, 4, 4), "random-s1": (2, 4, 6), "fixed-s1": (2, 4, 5)}
"""Curriculum -> valid answers of ten, of the base policy and after each stage."""
FAILURES = {"fixed-s0": "killed <script>alert(1)</script>", "random-s0": "an old failure"}
NONSENSE = asked(0, shares(0.5), fallback="no answer could be read", proposed=None)
DESIGNS = "checkpoint-V6 trained on 0 of the 2 designs that it was asked for"
MADE = {"finished": "2026-01-02T03:04:05+00:00", "code": "0.1.0+abc", "machine": "Linux, 2 cores"}
SPENT = {"training": 15, "engineer_prompt": 30, "engineer_completion": 12}


def play(folder: Path, runs: dict[str, tuple[int, ...]], spec: ComparisonSpec = SPEC) -> Path:
    """Leave finished curricula of a comparison in a folder; no design of the checkpoint can be read."""
    for child in spec.children:
        if child.name in runs:
            designs = (NONSENSE, NONSENSE) if child.arm.startswith("checkpoint") else ()
            run = finished_run(
                folder / child.name, runs[child.name], child.preset, proposals=designs, test=instances(seed=4)
            )
            with_results(run, seconds={"train": 60.0, "engineer": 2.0}, tokens=SPENT, **MADE)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return play(tmp_path_factory.mktemp("compared"), RUNS)


@pytest.fixture(scope="module")
def results(folder: Path) -> ComparisonResults:
    return gather(folder, SPEC, FAILURES)


@pytest.fixture(scope="module")
def page(results: ComparisonResults, tmp_path_factory: pytest.TempPathFactory) -> Page:
    return Page(write_page(tmp_path_factory.mktemp("page"), results).read_text())


def test_figures_are_means_over_the_finished_seeds_on_the_test_set(results: ComparisonResults):
    checkpoint, random, fixed, levels = results.arms
    assert (checkpoint.seeds, fixed.seeds, levels.seeds) == ((0, 1), (1,), ())
    ends = [arm.rates["valid"].value if arm.rates else None for arm in results.arms]
    assert ends == pytest.approx([0.7, 0.5, 0.5, None])
    assert [child.valid for child in results.children if child.arm == checkpoint.label] == [0.8, 0.6]
    assert [rate.value for rate in checkpoint.curve] == pytest.approx([0.2, 0.4, 0.7])
    assert random.rates["optimal"].value == pytest.approx(0.5)
    # Equal tokens in both stages: (0.2 / 2 + 0.4 + 0.7 / 2) / 2.
    assert checkpoint.rates["area"].value == pytest.approx(0.425)
    assert checkpoint.tokens == (0, 15, 30)
    assert set(results.strata) == {"3", "4"}
    assert results.hardest == tuple(results.strata)[-1:]
    assert checkpoint.rates["hardest"].value == pytest.approx(0.7)


def test_designs_that_could_not_be_read_and_what_a_run_spent_are_counted(results, page):
    assert [(arm.designs_used, arm.designs_asked) for arm in results.arms] == [(0, 2), (2, 2), (1, 1), (0, 0)]
    assert overview(results)["designs used"].tolist() == ["0 of 2", "2 of 2", "1 of 1", None]
    assert DESIGNS in page.source

    checkpoint = results.arms[0]
    spent = checkpoint.spent
    assert (spent.training_tokens, spent.training_seconds) == (30, 120)
    assert (spent.engineer_tokens, spent.engineer_seconds) == (84, 4)
    assert str(checkpoint.speed) == "75\u00a0%", "of seed 1, the only one that fixed has finished"
    assert checkpoint.no_signal is not None
    assert {name: part["data_ratio"] for name, part in checkpoint.configs[0].items()} == {"3": 0.5, "4": 0.5}
    assert "50\u00a0%; hole 0.2; wait 0" in page.text


def test_differences_are_over_the_seeds_that_both_finished(results: ComparisonResults):
    pairs = {(pair.arm, pair.minus): (pair.seeds, pair.differences["valid"].value) for pair in results.pairs}
    assert pairs == {
        ("checkpoint-V6", "random"): ((0, 1), pytest.approx(0.2)),
        ("checkpoint-V6", "fixed"): ((1,), pytest.approx(0.1)),
        ("random", "fixed"): ((1,), pytest.approx(0.1)),
    }, "seed 1: 6, 6 and 5"
    seeds = [*["2 of 2 (differences: 1)"] * 2, "1 of 2! (only 1)", "0 of 2"]
    assert arms(results, "valid")["seeds"].tolist() == seeds


def test_the_primary_difference_is_tested_alone_and_the_others_by_holm(folder, results):
    plain = [pair.adjusted["valid"] >= pair.differences["valid"].p for pair in results.pairs]
    assert all(plain)
    file = SPEC.file.model_copy(update={"primary": "checkpoint-V6", "baselines": ("random", "fixed")})
    primary = gather(folder, SPEC.model_copy(update={"file": file}), {})
    first = next(pair for pair in primary.pairs if pair.arm == "checkpoint-V6")
    assert (first.arm, first.minus) == ("checkpoint-V6", "random")
    assert first.adjusted["valid"] == first.differences["valid"].p
    assert first.adjusted["optimal"] > first.differences["optimal"].p


def test_a_run_that_cannot_be_read_or_compared_is_marked_with_its_reason_and_in_no_figure(tmp_path: Path):
    spec = comparison("random", "fixed", "levels", "frontier", seeds=[0], settings={"stages": 2})
    play(tmp_path, dict.fromkeys(("random-s0", "fixed-s0", "levels-s0"), (2, 4, 4)), spec)
    other = spec.children[3]
    with_results(finished_run(tmp_path / other.name, (2, 4, 4), other.preset, test=instances(seed=9)))
    (tmp_path / "random-s0" / "stage-01" / "test_rollouts.parquet").write_text("damaged")
    (tmp_path / "levels-s0" / "curriculum.json").unlink()
    results = gather(tmp_path, spec, {})
    states = [child.state for child in results.children]
    assert states == ["unreadable", "finished", "unreadable", "unreadable"]
    assert "test_rollouts.parquet" in results.children[0].reason
    assert "curriculum.json is missing" in results.children[2].reason
    assert results.children[3].reason == "was evaluated on other instances than the first one"
    assert [arm.label for arm in results.arms if arm.rates] == ["fixed"]
    assert "Unreadable: random-s0, levels-s0 and frontier-s0." in conclusions(results)


def test_it_is_said_what_failed_and_what_waits(results: ComparisonResults):
    children = {child.name: (child.state, bool(child.reason)) for child in results.children}
    assert children["fixed-s0"] == ("failed", True)
    assert children["levels-s0"] == children["levels-s1"] == ("waiting", False)
    assert children["random-s0"] == ("finished", False), "whatever went wrong before"
    assert [child.name for child in results.troubled] == ["fixed-s0"]


@pytest.mark.parametrize("width", [100, 80])
def test_the_table_fits_a_terminal_loses_nothing_and_marks_what_failed(results, width):
    table, console = comparison_table(results), Console(width=width, file=io.StringIO())
    console.print(table)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown
    for part in ("checkpoint-V6", "minus random", "minus fixed", "+20.0[", "Failed: fixed-s0", "0 of 2"):
        assert part in shown
    assert DESIGNS in " ".join(shown.split())


def test_the_page_and_its_figures_are_whole_and_safe(results: ComparisonResults, page: Page):
    assert not page.unclosed
    assert "<script>" not in page.source
    assert "killed &lt;script&gt;" in page.source
    differences, curves = ("\n".join(drawn.itertext()) for drawn in page.charts.values())
    assert "checkpoint-V6 (2 seeds)" in curves
    assert "fixed (1 seed)" in curves
    assert "levels" not in curves
    assert list(results.differences("valid")) == ["fixed", "random"]
    assert "checkpoint-V6" in differences
    assert all(f"minus {base}" in differences for base in ("random", "fixed"))


def test_the_page_says_who_is_ahead_with_the_reports_and_when_and_how_it_was_made(results, page: Page):
    headline = html.unescape(re.findall("<h1>(.*?)</h1>", page.source)[0]).replace("\u00a0", " ")
    assert headline == conclusions(results)[0].replace("\u00a0", " ")
    assert re.search(r"Against fixed, in valid rate on the test set: .*checkpoint-V6", headline)
    finished = {child.name for child in results.children if child.state == "finished"}
    assert {f"{name}/report.html" for name in finished} == set(re.findall(r'href="([^"#]+)"', page.source))
    facts = re.findall("<dt>.*?</dt><dd>(.*?)</dd>", html.unescape(page.source).replace("\u00a0", " "))
    assert facts[-3:] == ["2026-01-02 03:04:05 UTC", "0.1.0+abc", "Linux, 2 cores"]
    assert "<pre>envwright compare compare-micro</pre>" in page.source


def pair(value: float, reach: float = 0.02, minus: str = "fixed", p: float = 0.001) -> Pair:
    effect = Difference(value=value, low=value - reach, high=value + reach, p=p)
    both = {"valid": effect, "optimal": effect}
    return Pair(arm="new", minus=minus, seeds=(0, 1), differences=both, adjusted={"valid": p, "optimal": p})


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ((pair(0.05, 0.04),), "Against fixed, {}: new is ahead by +5.0 points [+1.0, +9.0] (p = 0.001)."),
        ((pair(-0.05, 0.04),), "Against fixed, {}: new is behind by −5.0 points [−9.0, −1.0] (p = 0.001)."),
        ((pair(0.01, 0.04, p=0.5),), "Against fixed, {}: new +1.0 points [−3.0, +5.0], not shown (p = 0.5)."),
        (
            (pair(0.05, minus="old"), pair(0.01, minus="other", p=0.5)),
            "Against old, {}: new is ahead by +5.0 points [+3.0, +7.0] (p = 0.001)."
            " Against other, {}: new +1.0 points [−1.0, +3.0], not shown (p = 0.5).",
        ),
        ((), "No baseline has finished yet with a seed of another arm. There is nothing to compare with."),
    ],
)
def test_only_an_adjusted_p_value_below_5_percent_puts_an_arm_ahead_or_behind(results, pairs, said):
    text = conclusions(results.model_copy(update={"pairs": pairs}))[0].replace("\u00a0", " ")
    assert text == said.replace("{}", "in valid rate on the test set")


def test_nothing_finished_is_shown_as_that(tmp_path: Path):
    results = publishing.publish_comparison.fn(tmp_path, SPEC, {"fixed-s0": "why"})
    assert results == read_comparison_results(tmp_path)
    assert "Nothing has finished yet" in (tmp_path / "comparison.html").read_text()
    assert publishing.earlier_failures(tmp_path) == {"fixed-s0": "why"}


def test_a_stage_that_the_gate_undid_is_not_on_the_curve(tmp_path: Path):
    spec = comparison("fixed", seeds=[0], settings={"stages": 2, "engineer.gate": "rollback"})
    play(tmp_path, {"fixed-s0": (2, 8, 1)}, spec)
    [fixed] = gather(tmp_path, spec, {}).arms
    assert [rate.value for rate in fixed.curve] == pytest.approx([0.2, 0.8, 0.8])
    assert (fixed.rates["valid"].value, fixed.undone) == (pytest.approx(0.8), 1)


def test_the_area_ends_where_the_run_with_the_fewest_tokens_ends(tmp_path: Path):
    spec = comparison("random", "fixed", seeds=[0], settings={"stages": 2})
    play(tmp_path, {"random-s0": (2, 4, 8), "fixed-s0": (2, 4, 8)}, spec)
    path = tmp_path / "fixed-s0" / RESULTS.name
    run = RESULTS.read(path)
    few = {"completion_tokens": 10}
    shorter = [
        stage.model_copy(update={"training": stage.training.model_copy(update=few)}) for stage in run.stages
    ]
    write_json(path, run.model_copy(update={"stages": tuple(shorter)}))
    results = gather(tmp_path, spec, {})
    random, fixed = (arm.rates["area"].value for arm in results.arms)
    heights = np.interp(np.linspace(0, 20, 2001), [0, 15, 30], [0.2, 0.4, 0.8])
    assert random == pytest.approx(heights.mean(), abs=1e-3)
    assert fixed == pytest.approx((0.2 / 2 + 0.4 + 0.8 / 2) / 2)


def test_run_report_and_comparison_agree_on_several_answers_to_an_instance(tmp_path: Path):
    settings = {"stages": 1, "evaluation.samples": 3, "evaluation.temperature": 0.6}
    spec = comparison("random", "fixed", seeds=[0], settings=settings)
    flags, runs = {}, {}
    for child in spec.children:
        drawn = flags[child.arm] = []

        def answers(instances: list, right: int, drawn: list = drawn) -> list:
            """Valid as drawn, three in a row."""
            drawn.append(np.random.default_rng([right, len(drawn)]).random((len(instances), 3)) < right / 10)
            pairs = zip(instances, drawn[-1], strict=True)
            each = [rollouts([instance], 10 * ok)[0] for instance, row in pairs for ok in row]
            return [rollout.model_copy(update={"truncated": not rollout.verdict.valid}) for rollout in each]

        correct, test = ((3, 7), (3, 6))[child.arm == "fixed"], instances(seed=4)
        run = finished_run(tmp_path / child.name, correct, child.preset, answers=answers, test=test)
        runs[child.arm] = with_results(run)
    # By the order of `finished_run`: validation of the base policy, test set twice, validation after stage 0.
    strata, ends = [instance.stratum for instance in test], {arm: part[2] for arm, part in flags.items()}
    results = gather(tmp_path, spec, {})
    for arm in results.arms:
        assert arm.rates["valid"] == rate(ends[arm.label].mean(axis=1), strata)
        assert arm.rates["pass@3"] == rate(ends[arm.label].any(axis=1), strata)
        run = runs[arm.label].read(RESULTS)
        assert run.stages[0].test.overall.valid_rate.low == pytest.approx(arm.rates["valid"].low)
        before, _, _, after = flags[arm.label]
        assert run.stages[0].valid_gain == difference(after.mean(axis=1) - before.mean(axis=1), strata)
        table = rates(run, "optimal").set_index("policy")["valid"]
        assert table["after stage 0, test set, pass@3"].value == pytest.approx(arm.rates["pass@3"].value)
        assert table["after stage 0, test set"].value == pytest.approx(ends[arm.label].mean())
    change = ends["random"].mean(axis=1) - ends["fixed"].mean(axis=1)
    assert results.pairs[0].differences["valid"] == difference(change, strata)
    assert "Pass@3: the share of instances" in write_page(tmp_path, results).read_text()
    report = write_report(runs["fixed"].directory).read_text()
    assert "20\u00a0instances for every policy. Each is answered 3 times" in report
    assert "cut off at the token limit, valid" in report
    assert len(re.findall("the first of 3 answers", report)) == 1
