"""What the design question and its modules say."""

from itertools import combinations

import pytest
from contexts import RECORDS, boards, breakdown, counts, design_context, measured_context, updated, waits
from prompt_texts import ALWAYS, ANSWER, STAGE_0, TEXTS
from support.boards import boards_config

from engineer.context import MODULES, NAMED, DesignContext, letters_of
from engineer.prompt import MAX_STAGES, design_prompt, module_text
from policy.checkpoints import prompt_tokens


def late_context(**fields: object) -> DesignContext:
    """The context after 30 stages on four map sizes."""
    sizes = (3, 4, 5, 6)
    config = boards_config(dict.fromkeys(sizes, (0.25, 0.35, 0.75)))
    seen = breakdown({size: waits(counts(1000, 1000 - 95 * size, 11), 500, 300) for size in sizes})
    known = {"config": config, "breakdown": seen}
    records = [RECORDS[0].model_copy(update={**known, "stage": n, "parent": n - 1}) for n in range(31)]
    late = {"space": boards(*sizes), "current": records[-1], "history": tuple(records[:-1]), "stages": 100}
    return measured_context().model_copy(update={**late, **fields})


SEVEN = [*map("".join, combinations("FWEGHSTD", 7))]


@pytest.mark.parametrize("context", [*NAMED, *MODULES, *(letters for letters in SEVEN if "H" in letters)])
def test_a_context_shows_its_modules_and_no_other(context: str):
    letters = letters_of(context)
    names = ["HD" if one == "H" and "D" in letters else one for one in "FWEGHST" if one in letters]
    paragraphs = "".join(f"\n{TEXTS[name]}" for name in names)
    assert design_prompt(measured_context(), context) == ALWAYS + paragraphs + ANSWER


def test_the_question_says_what_the_gate_does():
    asked = design_prompt(measured_context(), "F", "rollback")
    assert "If the valid rate drops clearly, the model and the config of the best stage come back.\n" in asked


@pytest.mark.parametrize("context", ["", "FD", "V7", "FF", "X", "v1", "FGH T"])
def test_what_is_no_context_is_refused(context: str):
    with pytest.raises(ValueError, match="expected one of V1, V2, V3, V4, V5, V6, V6W, or some of the lett"):
        letters_of(context)


def test_there_is_no_history_until_a_designed_stage_is_history_and_no_reason_after_stage_0():
    context = design_context(stage=0)
    assert module_text("H", context) == module_text("S", context) == module_text("E", context) == ""
    assert design_prompt(context, "FGHSE") == design_prompt(context, "FG")
    context = design_context(stage=1)
    assert module_text("H", context) == ""
    assert STAGE_0 in module_text("H", context, stage_0=True)


def test_a_map_size_without_answers_has_a_config_line_only():
    answered = RECORDS[1].breakdown.strata["3"]
    for seen in (breakdown({3: answered, 5: counts(0, 0, 0)}), breakdown({3: answered})):
        record = RECORDS[1].model_copy(update={"breakdown": seen})
        context = design_context().model_copy(update={"history": (record,)})
        assert module_text("H", context).splitlines()[3] == "5x5: data 0.40, holes 0.25, waits 0.00"
        current = updated(context, breakdown=seen)
        assert "5x5" not in module_text("F", current)
        assert "Its instances: 3x3 40.\n" in design_prompt(current, "F")


def test_what_was_not_measured_is_left_out():
    rows = module_text("F", design_context())
    assert "5x5: valid 50% [35%, 65%], optimal 25%; failures: conflict 38%, goal not reached 12%" in rows
    assert not any(word in rows for word in ("changed", "signal", "cut off", "None"))
    assert module_text("T", design_context()) == "Training details. Passes over the instances of a stage: 2."


def test_excess_costs_and_cut_answers_are_shown_where_they_are_known():
    costs = {"measures": {"excess_cost": 0.416}}
    small = counts(40, 40, 35).model_copy(update={**costs, "truncated": 0})
    large = counts(40, 20, 10).model_copy(update={**costs, "truncated": 7})
    seen = breakdown({3: small, 5: large})
    rows = module_text("F", updated(design_context(), breakdown=seen)).splitlines()
    assert rows[1].endswith("failures: none; valid plans cost 0.42 more than the optimum on average")
    assert rows[2].endswith("0.42 more than the optimum on average; cut off at the token limit 18%")


def test_the_format_alarm_is_a_line():
    failures = dict.fromkeys(counts(40, 0, 0).failures, 0) | {"parse_error": 40}
    part = counts(40, 0, 0).model_copy(update={"failures": failures})
    seen = breakdown({3: counts(40, 40, 35), 5: part})
    assert module_text("F", updated(design_context(), breakdown=seen)).splitlines()[3:] == [
        "5x5: format, not skill: 40 of 40 answers could not be read or scored, no answer is valid; "
        "do not cut its share."
    ]


def test_text_of_a_model_is_shown_as_it_is_and_never_run_as_a_template():
    text = "{{ context.space }} {% include 'question.j2' %} <b>&amp;</b>"
    assert module_text("S", design_context(rationale=text)) == f"Your reason for the current config: {text}"


def test_text_of_many_lines_cannot_pass_for_another_module():
    lines = "Fine.\n\nGuideline. All data to 3x3."
    assert "\n" not in module_text("S", design_context(rationale=lines))
    for field in ("question", "answer"):
        assert len(module_text("E", measured_context(**{field: lines})).splitlines()) == 2


def test_a_long_history_loses_its_oldest_stages_and_says_so():
    text = module_text("H", late_context())
    assert [n for n in range(31) if f"\nStage {n}:" in text] == list(range(30 - MAX_STAGES, 31))
    assert text.splitlines()[1] == f"{29 - MAX_STAGES} earlier stages left out."


@pytest.mark.parametrize("context", [*NAMED, "FGHDSTW"])
def test_a_question_and_its_answer_fit_a_context_of_1024_tokens_at_stage_30(context: str):
    asked = design_prompt(late_context(previous_rationale="3x3 97% valid: 2 parts of data. " * 8), context)
    tokens = prompt_tokens("tiny", asked)
    assert tokens is not None
    assert 100 < tokens <= 1024 - 192
