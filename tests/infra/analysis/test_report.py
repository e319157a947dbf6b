"""The report as a page: one safe file, its drawings and numbers, the answers that it shows."""

import html
import re
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from made_up_runs import (
    EVEN,
    HOSTILE,
    MOVED,
    SIZES,
    TINY,
    proposal,
    results_of,
    rollouts_of,
    stage_result,
    write_run,
    write_stages,
)
from report_page import EMBEDDED, Page, report

from envgen.breakdown import Difference
from envgen.errors import RunDirectoryError
from envgen.files import write_json
from envgen.mapf.problem import Instance
from envgen.mapf.verifier import FailureCategory
from infra.analysis.formats import interval, percent
from infra.analysis.report import examples
from infra.analysis.report.build import write_report
from infra.analysis.report.text import headline
from infra.config.preset import load_preset, parse_override
from infra.runs.steps import stage_directory
from policy.rollouts import breakdown_of, write_rollouts


def test_the_page_is_one_file_without_scripts_or_anything_from_elsewhere(page: Page):
    assert {tag for tag, _ in page.tags}.isdisjoint(
        {"script", "link", "iframe", "object", "embed", "base", "form"}
    )
    references = [
        value
        for _, attributes in page.tags
        for name, value in attributes.items()
        if name in {"src", "href", "xlink:href", "srcset", "action", "data"}
    ]
    assert references
    assert all(value and value.startswith(("#", EMBEDDED)) for value in references)
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert not re.search(r"url\((?!#)|@import", page.source)
    assert not page.unclosed


def test_model_text_is_shown_as_text(page: Page):
    assert page.source.count("<script") == 0
    assert f"Drop 3x3.\n{HOSTILE}" in page.text
    assert f"not JSON: {HOSTILE}" in page.text
    assert f"Failures: {HOSTILE}" in page.text
    assert f"no answer could be read: {HOSTILE}" in page.text
    assert f"I cannot. {HOSTILE}" in page.text


def test_every_drawing_is_well_formed_and_ids_are_unique(page: Page):
    assert len(page.charts) == 2 + len(SIZES) + 1 + 1 + 2 * 2
    replays = [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page.source, re.DOTALL)]
    assert len(replays) == page.replays
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_all_that_is_counted_of_a_map_size_stands_in_the_table(page: Page, validation: list[Instance]):
    table = page.source.partition('<section id="strata">')[2].partition("</section>")[0]
    names = (
        "valid",
        "optimal",
        "valid where a wait is needed",
        "valid where none is",
        "arrived",
        "legal share",
    )
    assert re.findall("<td>([a-z ]+)</td>", table) == list(names) * len(SIZES)
    for correct in (3, 5, 4):
        for part in breakdown_of(TINY.task, rollouts_of(validation, correct)).strata.values():
            waits, moves = part.rates("wait_required") or (None, None)
            for rate in (
                part.valid_rate,
                part.optimal_rate,
                waits,
                moves,
                part.term_rate("arrived"),
                part.term_rate("legal_share"),
            ):
                assert rate is not None
                assert f'<td>{percent(rate.value)}<span class="ci">{interval(rate)}' in table


def test_every_stage_map_size_and_category_appears(page: Page):
    for size in (*SIZES, "6"):
        assert f"{size}x{size}" in page.text
    for stage in (0, 1):
        assert f"after stage {stage}" in page.text
    for category in FailureCategory:
        assert category.value.replace("_", " ") in page.text
    for fact in (
        "first",
        "tiny",
        "checkpoint",
        "V6",
        "45\u00a0instances",
        "that stage has not been run",
        "fallback",
        "shares divided by 1.2",
        "2\u00a0attempts",
    ):
        assert fact in page.text
    assert "envwright run tiny --engineer checkpoint --variant V6 --stages 2 --seed 7" in page.text


def test_the_page_says_when_in_how_long_and_on_what_it_was_made(page: Page):
    facts = dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd></div>", page.source))
    assert facts["Finished"] == "2026-01-02 03:04:05 UTC"
    assert facts["Version"] == "0.1.0+abc"
    assert facts["Machine"] == "Linux x86_64, 2 cores"
    stages = page.source.count("<th>after stage")
    assert facts["Tokens"] == f"{13 * stages / 2:.0f}k"


def test_what_was_set_stands_in_the_command_and_makes_the_same_preset(
    tmp_path: Path, validation: list[Instance]
):
    given = {
        "trl.learning_rate": 0.002,
        "default_config.sizes.3.hole_ratio": 0.25,
        "engineer.gate": "rollback",
    }
    preset = load_preset("tiny", given)
    start = rollouts_of(validation, 3)
    run = write_stages(tmp_path, preset, start, [start], (proposal(0, MOVED),), EVEN)
    command = shlex.split(re.findall(r"<pre>(envwright run [^\n]*)", html.unescape(report(run).source))[0])
    settings = [command[place + 1] for place, word in enumerate(command) if word == "--set"]
    assert load_preset("tiny", dict(map(parse_override, settings))) == preset
    assert len(settings) == 3
    assert command[-2:] == ["--name", "first"]


def test_every_link_of_the_contents_leads_to_a_section(page: Page):
    links = [attributes["href"] or "" for tag, attributes in page.tags if tag == "a"]
    assert len(links) == 9
    assert {link.removeprefix("#") for link in links} <= {attributes.get("id") for _, attributes in page.tags}


def test_the_budget_of_each_map_size_is_drawn_for_each_stage_and_for_what_is_next(page: Page):
    drawn = page.charts["Share of the data per map size by stage"]
    labels = [text.strip() for text in drawn.itertext() if text.strip()]
    assert [label for label in labels if label.startswith(("stage", "proposed"))] == [
        "stage 0",
        "stage 1",
        "proposed, not run",
    ]
    assert [label for label in labels if label.startswith("3x3")] == ["3x3 50\u00a0%"]
    assert [label for label in labels if label.startswith("4x4")] == [
        "4x4 25\u00a0%",
        "4x4 40\u00a0%",
        "4x4 40\u00a0%",
    ]


def test_twelve_failures_of_the_last_stage_are_replayed(page: Page):
    assert page.replays == 12
    assert re.search(r"12 of the 2\d\u00a0failures after stage 1", page.text)


def test_the_same_run_gives_the_same_page(tmp_path: Path, validation: list[Instance]):
    run = write_run(tmp_path, validation, (5,))
    first = write_report(run).read_bytes()
    assert write_report(run).read_bytes() == first
    assert [path.name for path in run.iterdir() if "partial" in path.name] == []


def test_a_single_stage_without_a_training_log_has_no_training_chart(
    tmp_path: Path, validation: list[Instance]
):
    run = write_run(tmp_path, validation, (5,))
    (stage_directory(run, 0) / "train_log.parquet").unlink()
    page = report(run)
    assert "over one stage:" in page.text
    assert "Mean reward by step" not in page.text
    assert "0.50 in the last fifth" in page.text


@pytest.mark.parametrize(("correct", "shown"), [(10, 0), (9, 4)])
def test_few_failures_are_all_replayed(tmp_path: Path, validation: list[Instance], correct: int, shown: int):
    page = report(write_run(tmp_path, validation, (correct,)))
    assert page.replays == shown
    assert ("there is no failure to show" in page.text) == (shown == 0)


def test_chosen_failures_differ_and_do_not_depend_on_their_order(validation: list[Instance]):
    rollouts = rollouts_of(validation, 0)
    chosen = examples.choose(TINY.space, rollouts, 12)
    assert chosen == examples.choose(TINY.space, rollouts[::-1], 12)
    assert {r.instance.stratum for r in chosen} == set(SIZES)
    assert {r.verdict.category for r in chosen} == {r.verdict.category for r in rollouts}


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.02, 0.2, "+11.0\u00a0points, 95\u00a0% interval [+2.0,\u00a0+20.0]."),
        (-0.02, 0.2, "which includes zero: no gain is shown."),
        (-0.2, -0.05, ": a loss."),
    ],
)
def test_the_headline_claims_no_more_than_the_interval_allows(
    validation: list[Instance], low: float, high: float, said: str
):
    start, after = rollouts_of(validation, 3), rollouts_of(validation, 5)
    stage = stage_result(0, EVEN, start, after, proposal(0, MOVED)).model_copy(
        update={"valid_gain": Difference(value=(low + high) / 2, low=low, high=high)}
    )
    assert headline(results_of(start, [stage])).endswith(said)


def test_a_run_without_results_or_without_a_finished_stage_is_refused(
    tmp_path: Path, validation: list[Instance]
):
    with pytest.raises(RunDirectoryError, match=r"results\.json"):
        write_report(tmp_path)
    write_json(tmp_path / "results.json", results_of(rollouts_of(validation, 3), []))
    with pytest.raises(RunDirectoryError, match="no finished stage"):
        write_report(tmp_path)


def test_the_report_imports_without_matplotlib():
    code = (
        "import sys, infra.analysis.report.build; sys.exit('matplotlib' in sys.modules or 'torch' in"
        " sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_base_policy_and_last_stage_answer_the_same_instances_side_by_side(
    validation: list[Instance], tmp_path: Path
):
    run = write_run(tmp_path, validation, (2, 6))
    assert 'id="gallery"' not in report(run).source, "nothing is shown of answers that are not there"
    start = rollouts_of(validation, 3)
    write_rollouts(run / "start" / "rollouts.parquet", start, TINY.prompt_style, TINY.family)
    gallery = report(run).source.partition('<section id="gallery">')[2].partition("</section>")[0]
    titles = [
        html.unescape(title).replace("\u00a0", " ") for title in re.findall('kind">(.*?)</h3>', gallery)
    ]
    n = [sum(3 <= number % 10 < 6 for number in range(45)), sum(number % 10 >= 6 for number in range(45))]
    n.append(45 - sum(n))
    assert titles == [
        f"Solved since: {n[0]} instances, 4 of them shown",
        f"Still failed: {n[1]} instances, 2 of them shown",
        f"Solved before and after: {n[2]} instances, 2 of them shown",
    ]
    assert gallery.count("<svg") == 2 * gallery.count("<figure") == 16
    sides = re.findall(r'<p class="label">(.*?)</p>', gallery)
    assert sides == ["base policy", "stage 1"] * 8
    assert gallery.count("✓ optimal") == 4 + 2 * 2, "after, and on both sides"
