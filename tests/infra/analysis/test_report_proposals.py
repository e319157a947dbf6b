"""What a report says of the engineer's proposals: edits, behaviour, claims."""

import html
import json
import re
from pathlib import Path

from made_up_runs import EVEN, HOSTILE, MOVED, gain, proposal, rollouts_of, write_run
from report_page import Page, measures, report

from envgen.mapf.problem import Instance
from infra.analysis.formats import points, points_interval


def test_a_proposal_shows_old_and_new_values_of_what_it_changed(page: Page):
    assert re.search(r'class="changed"><s>25\u00a0% →</s> 40\u00a0%</td>', page.source)
    assert re.search(r'class="changed"><s>50\u00a0% →</s> none</td>', page.source)
    assert "The config stays as it is" in page.text


def test_the_behaviour_of_each_proposal_stands_in_a_table_with_units(page: Page, validation: list[Instance]):
    gains = [gain(rollouts_of(validation, 3), rollouts_of(validation, correct)) for correct in (5, 4)]
    # EVEN to MOVED: 50 % of 3x3 go, 4x4 gains 15 points, 5x5 10, and 6x6, not evaluated, comes with 25; holes
    # of 4x4 and 5x5 are 10 points up.
    assert measures(page) == {
        "Edit of the shares|points, sum over map sizes, 0 to 200": ["100.0", "0.0"],
        "Edit of the hole ratios|points, sum over map sizes": ["20.0", "0.0"],
        "Edit of the wait ratios|points, sum over map sizes": ["0.0", "0.0"],
        "Map sizes left as they were|of those trained on": ["0 of 3", "3 of 3|4x4, 5x5, 6x6"],
        "Map sizes that worked and were left|of those that worked": ["0 of 1", "1 of 1|4x4"],
        "Data on sizes under 5 % valid|stage → proposed": ["0 % → 0 %", "0 % → 0 %"],
        "Data on sizes over 95 % valid|stage → proposed": ["0 % → 0 %", "0 % → 0 %"],
        "Signal gained|−1 to 1": ["–", "none moved"],
        "Agreement with the failures|−1 to 1": ["–", "–"],
        "Valid rate against the policy before|points": [
            f"{points(g.value)}|{points_interval(g)}".replace("\u00a0", " ") for g in gains
        ],
        "Edit taken back after a drop|−1 to 1": ["no drop", "no drop"],
        "Rationale says what is true|of its checkable claims": ["no checkable claim", "no checkable claim"],
    }


def test_a_drop_is_shown_with_how_much_of_the_edit_before_it_was_taken_back(
    tmp_path: Path, validation: list[Instance]
):
    proposals = (proposal(0, MOVED), proposal(1, EVEN))
    shown = measures(report(write_run(tmp_path, validation, (3, 1), proposals)))
    assert shown["Edit taken back after a drop|−1 to 1"] == ["no drop", "+1.00"]


def test_a_stage_that_loses_optimal_answers_and_shows_no_drop_of_valid_ones_says_so(
    page: Page, tmp_path: Path, validation: list[Instance]
):
    fell = report(write_run(tmp_path, validation, (1,)))
    assert "no drop is shown of valid; optimal fell" in fell.text
    assert "Optimal, points" in page.text
    assert "optimal fell" not in page.text


def test_the_false_claims_of_a_rationale_are_marked_under_it(tmp_path: Path, validation: list[Instance]):
    proposals = (
        proposal(0, MOVED, rationale=f"More data for 4x4, 5x5 and 9x9; 3x3 100% valid: more data. {HOSTILE}"),
        proposal(1, MOVED, rationale="4x4: as it is."),
        proposal(2, MOVED, rationale="The config is fixed."),
        proposal(3, MOVED),
    )
    page = report(write_run(tmp_path, validation, (5, 5, 5, 5), proposals))
    assert re.findall(r"Says what is true: ([^<]+)</p>", page.source) == [
        "2 of 5\u00a0claims. Contradicted by the numbers:",
        "1 of 1\u00a0claim",
        "no checkable claim",
    ]
    [false] = re.findall(r'<ul class="notes false">(.*?)</ul>', page.source)
    assert [html.unescape(claim) for claim in re.findall("<li>(.*?)</li>", false)] == [
        "'9x9': no such map size",
        "'3x3 more data': 0.50 → 0.00",
        "'3x3 100% valid': 67% valid",
    ]
    assert measures(page)["Rationale says what is true|of its checkable claims"] == [
        "2 of 5 claims",
        "1 of 1 claim",
        *["no checkable claim"] * 2,
    ]


def test_claims_that_were_not_checked_are_left_out(tmp_path: Path, validation: list[Instance]):
    run = write_run(tmp_path, validation, (5,))
    stored = json.loads((run / "results.json").read_text())
    for stage in stored["stages"]:
        del stage["behaviour"]["claims"]
    (run / "results.json").write_text(json.dumps(stored))
    page = report(run)
    assert "Says what is true" not in page.text
    assert measures(page)["Rationale says what is true|of its checkable claims"] == ["–"]


def test_a_claim_that_the_numbers_contradict_is_marked_in_the_quoted_words(
    validation: list[Instance], tmp_path: Path
):
    said = proposal(0, MOVED, rationale="Less data for 4x4. More data for 5x5; <b>bold</b>")
    source = report(write_run(tmp_path, validation, (5,), (said,))).source
    assert re.findall("<mark[^>]*>(.*?)</mark>", source) == ["Less data for 4x4"]
    assert ". More data for 5x5; &lt;b&gt;bold" in source


def test_parts_of_the_data_that_are_not_the_shares_are_marked_too(validation: list[Instance], tmp_path: Path):
    words = "4x4: 8 parts of data. 5x5: 7 parts of data. 6x6: 5 parts of data"
    for said, wrong in (
        (words, []),
        (
            words.replace("5 parts", "9 parts"),
            ["4x4: 8 parts of data", " 5x5: 7 parts of data", " 6x6: 9 parts of data"],
        ),
    ):
        source = report(write_run(tmp_path, validation, (5,), (proposal(0, MOVED, rationale=said),))).source
        assert re.findall("<mark[^>]*>(.*?)</mark>", source) == wrong
