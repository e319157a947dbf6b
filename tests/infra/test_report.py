"""The report as a page: one safe file, its drawings and numbers, the answers that it shows."""

import html
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest
from factories import asked, finished_run, rollout, with_results
from report_page import EMBEDDED, HOSTILE, TINY, MakeRun, Page, hostile_answers, report

from envgen.config import EnvConfig
from envgen.environment import Instance, Source
from envgen.errors import RunDirectoryError
from envgen.files import write_json
from envgen.mapf.environment import MapfFrozenLake
from envgen.mapf.verifier import FailureCategory
from envgen.sampling import sample
from infra.config.preset import load_preset
from infra.formats import interval, percent
from infra.report import examples
from infra.report.page import write_report
from infra.results import CurriculumResults
from infra.runs.files import REPORT, TRAINING_LOG
from infra.runs.run import Run
from policy.rollouts import Rollout, breakdown_of

SUMS = load_preset("micro-sums")


def test_the_page_is_one_file_without_scripts_or_anything_from_elsewhere(page: Page):
    forbidden = {"script", "link", "iframe", "object", "embed", "base", "form"}
    assert {tag for tag, _ in page.tags}.isdisjoint(forbidden)
    loading = {"src", "href", "xlink:href", "srcset", "action", "data"}
    attributes = [pair for _, attributes in page.tags for pair in attributes.items()]
    references = [value for name, value in attributes if name in loading]
    assert references
    assert all(value and value.startswith(("#", EMBEDDED)) for value in references)
    assert not [name for name, _ in attributes if name.startswith("on")]
    assert not re.search(r"url\((?!#)|@import", page.source)
    assert not page.unclosed


def test_model_text_is_shown_as_text(page: Page):
    for before in ("Drop 3x3.\n", "not JSON: ", "Failures: ", "no answer could be read: "):
        assert f"{before}{HOSTILE}" in page.text
    assert f"{HOSTILE}\nI cannot." in page.text


def test_every_drawing_is_well_formed_and_links_lead_to_sections(page: Page):
    assert len(page.charts) == 2 + 3 + 2 * 2
    assert page.section("failures").count('<div class="bar">') == 3
    for svg in re.findall(r"<svg.*?</svg>", page.source, re.DOTALL):
        ElementTree.fromstring(svg)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {(attributes["href"] or "").removeprefix("#") for tag, attributes in page.tags if tag == "a"}
    assert links <= set(ids)


def test_all_that_is_counted_of_a_map_size_stands_in_the_table(page: Page, validation: list):
    table = page.section("strata")
    names = ["valid", "optimal", "valid where a wait is needed", "valid where none is", "arrived"]
    assert re.findall('<td data-name="rate">([a-z ]+)</td>', table) == [*names, "legal share"] * 3
    for correct in (3, 5, 4):
        for part in breakdown_of(TINY.task, hostile_answers(validation, correct)).strata.values():
            sides = (side.valid_rate for side in part.split("wait_required") or ())
            terms = (part.term_rate(name) for name in ("arrived", "legal_share"))
            for rate in (part.valid_rate, part.optimal_rate, *sides, *terms):
                assert f'">{percent(rate.value)}<span class="ci">{interval(rate)}' in table


def test_the_facts_of_a_run_stand_on_its_page(page: Page):
    assert all(f"{size}x{size}" in page.text for size in "3456")
    assert all(category.value.replace("_", " ") in page.text for category in FailureCategory)
    words = (
        "after stage 0",
        "after stage 1",
        "that stage has not been run",
        "fallback",
        "shares were scaled",
    )
    assert all(word in page.text for word in words)
    facts = dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd></div>", page.source))
    assert facts["Finished"] == "2026-01-02 03:04:05 UTC"
    assert (facts["Version"], facts["Machine"]) == ("0.1.0+abc", "Linux, 2 cores")
    assert facts["Validation set"] == "45\u00a0instances"
    assert re.search(r"<s>25\u00a0% →</s> 40\u00a0%</td>", page.source)
    assert re.search(r"<s>50\u00a0% →</s> none</td>", page.source)
    assert "Moves 50\u00a0% of the data to another map size; knobs change." in page.text
    assert "The config stays as it is" in page.text
    row = page.section("environments").partition("<th>4x4</th>")[2].partition("</tr>")[0]
    assert re.findall("<b>(.*?)</b>", row) == ["25\u00a0%", "40\u00a0%", "40\u00a0%"]


def test_a_page_is_the_same_each_time_and_the_file_of_the_run_makes_the_same_preset(make_run: MakeRun):
    overrides = {"trl.learning_rate": 0.002, "engineer.gate": "rollback", "stages": 1}
    preset = load_preset("tiny", overrides)
    run = make_run(3, 9, preset=preset)
    page = report(run)
    [command] = re.findall(r"<pre>(envwright run [^\n]*)", html.unescape(page.source))
    assert load_preset(shlex.split(command)[2]) == preset, "a run outside of the runs folder"
    assert report(run).source == page.source
    run.path(TRAINING_LOG, 0).unlink()
    assert "Mean reward by step" in page.text
    assert "Mean reward by step" not in report(run).text
    assert [path.name for path in run.directory.iterdir() if "partial" in path.name] == []


def test_chosen_failures_differ_and_do_not_depend_on_their_order(validation: list):
    rollouts = [rollout for rollout in hostile_answers(validation, 0) if rollout.verdict.category]
    chosen = examples.choose(TINY.space, rollouts, 12)
    assert chosen == examples.choose(TINY.space, rollouts[::-1], 12)
    assert {r.instance.stratum for r in chosen} == set("345")
    assert {r.verdict.category for r in chosen} == {r.verdict.category for r in rollouts}


def test_a_run_without_a_finished_stage_is_refused(tmp_path: Path, validation: list):
    with pytest.raises(RunDirectoryError, match=r"results\.json"):
        write_report(tmp_path)
    start = breakdown_of(TINY.task, hostile_answers(validation, 3))
    names = {"curriculum": "first", "preset": "tiny", "engineer": "fixed", "context": "V6", "seed": 0}
    write_json(tmp_path / "results.json", CurriculumResults(**names, start=start, stages=()))
    with pytest.raises(RunDirectoryError, match="no finished stage"):
        write_report(tmp_path)


def test_a_picture_that_fails_costs_the_picture_and_not_the_report(make_run: MakeRun, monkeypatch, caplog):
    def broken(*_args: object, **_options: object) -> None:
        raise ZeroDivisionError("no width")

    run = make_run(3, 1)
    monkeypatch.setattr("infra.figures.training_chart", broken)
    monkeypatch.setattr("envgen.mapf.environment.replay_svg", broken)
    page = report(run)
    assert "a drop; the gate is off" in page.text
    assert page.text.count("Could not be drawn: ZeroDivisionError: no width") > 2
    assert "Traceback" in caplog.text
    assert len(page.charts) == 2 + 3
    assert not page.unclosed


def test_replays_can_be_stopped_and_their_marks_are_explained(page: Page):
    assert MapfFrozenLake.picture_legend in page.text
    assert 'id="still"' in page.source
    assert "prefers-reduced-motion" in page.source
    moving, still = (page.source.count(f'class="{group}"') for group in ("moving", "still"))
    assert moving == still > 0


def test_base_policy_and_last_stage_answer_the_same_instances_side_by_side(page: Page):
    gallery = page.section("gallery")
    titles = re.findall('kind">(.*?)</h3>', html.unescape(gallery).replace("\u00a0", " "))
    solved = sum(number % 10 == 3 for number in range(45))
    assert titles[0] == f"Solved since: {solved} instances, 4 of them shown"
    assert [title.partition(":")[0] for title in titles[1:]] == ["Still failed", "Solved before and after"]
    assert gallery.count("<svg") == gallery.count("<summary>") == 2 * gallery.count("<figure") == 20
    assert re.findall(r'<p class="label">(.*?)</p>', gallery) == ["base policy", "stage 1"] * 10
    categories = {category.replace("_", " ") for category in TINY.space.categories if category}
    assert categories & set(re.findall(r"</span>([a-z ]+): ", gallery)), "an answer that failed says how"


def sums(instances: list[Instance], correct: int) -> list[Rollout]:
    """The first `correct` of every ten sums are right, of the others every second is too large by one."""
    texts = [
        one.answer if n % 10 < correct else str(int(one.answer) + 1) if n % 2 else "I cannot."
        for n, one in enumerate(instances)
    ]
    return list(map(rollout, instances, texts, SUMS.task.judge(instances, texts)))


def test_the_report_of_another_environment_has_its_words_and_none_of_boards(tmp_path: Path):
    parts = {name: {"data_ratio": 0.5, "digits": 2.5, "carry_ratio": 1} for name in ("2", "3")}
    config = EnvConfig.model_validate({"terms": parts})
    instances, _ = sample(SUMS.task, SUMS.default_config, 40, Source(3))
    claims = [
        {"stratum": "2", "metric": "valid", "value": 0.3, "true": 0.3, "agrees": True},
        {"stratum": "3", "metric": "valid", "value": 0.9, "true": 0.5, "agrees": False},
        {"stratum": "3", "metric": "mood", "value": None, "true": None, "agrees": False},
    ]
    words = {"rationale": "More carries for 2 terms.", "evidence": claims}
    proposals = tuple(asked(stage, config, **words) for stage in (0, 1))
    configs = (SUMS.default_config, config, config)
    run = finished_run(tmp_path / "run", (3, 5, 7), SUMS, instances, proposals, configs, sums)
    page = report(with_results(run))
    assert not page.unclosed
    text = re.sub("<[^>]+>", " ", page.source.partition("<body>")[2]).lower()
    assert not re.findall(r"\b(?:map size|hole|wait|agent|board|grid|plan|goal|optimal)", text)
    assert "1 of 3\xa0numbers agree" in page.text
    for verdict in ("2 valid 0.3: right", "3 valid 0.9: shown as 0.5", "3 mood no number: not shown"):
        assert verdict in page.text
    for fact in ("By kind of sum", "2 terms", "valid where a digit is carried", "close", "unreadable", "2.5"):
        assert fact in page.text
    gallery = page.section("gallery")
    assert len(re.findall(r"What is \d", gallery)) == gallery.count("<figure") > 8, "no pictures"


def test_log_and_report_tell_a_broken_format_from_a_hard_stratum(tmp_path, caplog):
    run = finished_run(tmp_path / "run", (5, 0))
    finished_run(tmp_path / "healed", (0, 5))
    alarm = "3x3: format, not skill: 10 of 10 answers could not be read or scored, no answer is valid"
    alarms = [message for message in caplog.messages if alarm in message]
    assert alarms == [f"stage 0: {alarm}"], "the base policy may still have to learn the format"
    assert report(with_results(run)).section("strata").count(f'<p class="alert">{alarm}</p>') == 1


def test_a_report_has_no_character_that_steers_a_terminal_or_the_direction_of_writing(tmp_path: Path):
    run = Run(directory=tmp_path)
    page = "<p>caf\u00e9 \u2212 \u00a0 \t\U0001f600</p>\n"
    run.write(REPORT, page + "a\x00b\x1b[31mc\x9b\x7f\rd\u202ee\u2066f")
    written = run.path(REPORT).read_bytes().decode()
    assert written == page + "a\ufffdb\ufffd[31mc\ufffd\ufffd\ufffdd\ufffde\ufffdf"
