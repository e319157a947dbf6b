"""What a report says of the engineer's proposals: edits and behaviour."""

import re
from pathlib import Path

from made_up_runs import write_run
from report_page import Page, measures, report

from envgen.mapf.problem import Instance


def test_a_proposal_shows_old_and_new_values_of_what_it_changed(page: Page):
    assert re.search(r'class="changed"><s>25\u00a0% →</s> 40\u00a0%</td>', page.source)
    assert re.search(r'class="changed"><s>50\u00a0% →</s> none</td>', page.source)
    assert "The config stays as it is" in page.text


def test_the_behaviour_of_each_proposal_stands_in_a_table_with_units(page: Page, validation: list[Instance]):
    # EVEN to MOVED: 50 % of 3x3 go, 4x4 gains 15 points, 5x5 10, and 6x6, not evaluated, comes with 25; holes
    # of 4x4 and 5x5 are 10 points up.
    assert measures(page) == {
        "Edit of the shares|points, sum over map sizes, 0 to 200": ["100.0", "0.0"],
        "Edit of the hole ratios|points, sum over map sizes": ["20.0", "0.0"],
        "Edit of the wait ratios|points, sum over map sizes": ["0.0", "0.0"],
        "Data on sizes under 5 % valid|stage → proposed": ["0 % → 0 %", "0 % → 0 %"],
        "Data on sizes over 95 % valid|stage → proposed": ["0 % → 0 %", "0 % → 0 %"],
    }


def test_a_stage_that_loses_optimal_answers_and_shows_no_drop_of_valid_ones_says_so(
    page: Page, tmp_path: Path, validation: list[Instance]
):
    fell = report(write_run(tmp_path, validation, (1,)))
    assert "no drop is shown of valid; optimal fell" in fell.text
    assert "Optimal, points" in page.text
    assert "optimal fell" not in page.text
