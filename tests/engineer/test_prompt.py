"""What the modules and prompts say, in both wordings."""

import pytest
from contexts import (
    RECORDS,
    boards,
    breakdown,
    counts,
    design_context,
    env_config,
    measured,
    measured_context,
    waits,
)
from prompt_texts import BOOKKEEPING, FULL_BOOKKEEPING, HEADS, MODULES, SHOWN, STAGE_0, TAILS, WORDINGS

from engineer.context import VARIANTS, DesignContext, Module
from engineer.prompt import MAX_STAGES, design_prompt, module_text
from engineer.spec import Wording
from policy.checkpoints import prompt_tokens


def said(module: Module, context: DesignContext, wording: Wording = "compact") -> str:
    return module_text(module, context, wording)


def late_context(**fields: object) -> DesignContext:
    """The context after 30 stages on four map sizes."""
    sizes = (3, 4, 5, 6)
    config = env_config(dict.fromkeys(sizes, (0.25, 0.35, 0.75)))
    seen = breakdown({size: waits(counts(1000, 1000 - 95 * size, 11), 500, 300) for size in sizes})
    records = [
        RECORDS[0].model_copy(update={"stage": n, "parent": n - 1, "config": config, "breakdown": seen})
        for n in range(31)
    ]
    late = {"space": boards(*sizes), "current": records[-1], "history": tuple(records[:-1]), "stages": 100}
    return measured_context().model_copy(update={**late, **fields})


@pytest.mark.parametrize("wording", WORDINGS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_shows_its_modules_and_no_other(variant: str, wording: Wording):
    paragraphs = "".join(MODULES[wording][module] for module in SHOWN[variant])
    assert design_prompt(variant, measured_context(), wording) == HEADS[wording] + paragraphs + TAILS[wording]


def test_after_stage_0_there_is_no_history_and_no_earlier_reason():
    context = design_context(stage=0)
    for wording in WORDINGS:
        for module in (Module.HISTORY, Module.HISTORY_WITHOUT_DEFAULT, Module.RATIONALE):
            assert said(module, context, wording) == ""
        assert design_prompt("V5", context, wording) == design_prompt("V2", context, wording)
    assert "\n\n" not in design_prompt("V6S", context, "compact")


def test_history_without_default_is_silent_until_a_designed_stage_is_history():
    context = design_context(stage=1)
    assert said(Module.HISTORY, context) == f"Earlier stages:\n{STAGE_0}".strip()
    for wording in WORDINGS:
        assert said(Module.HISTORY_WITHOUT_DEFAULT, context, wording) == ""


def test_a_map_size_without_answers_has_a_config_line_only():
    known = RECORDS[1].breakdown.strata["3"]
    for seen in (breakdown({3: known, 5: counts(0, 0, 0)}), breakdown({3: known})):
        record = RECORDS[1].model_copy(update={"breakdown": seen})
        context = design_context().model_copy(update={"history": (record,)})
        assert (
            said(Module.HISTORY, context).splitlines()[2] == "Stage 1, 5x5: data 0.40, holes 0.25, waits 0.00"
        )
        assert (
            said(Module.HISTORY, context, "full").splitlines()[3] == "5x5: data 0.40, holes 0.25, waits 0.00"
        )
        for wording in WORDINGS:
            assert "5x5" not in said(Module.FAILURES, context.model_copy(update={"current": record}), wording)


def test_what_was_not_measured_is_left_out():
    rows = said(Module.FAILURES, design_context(), "full")
    assert "40 answers, valid 50% [35%, 65%], optimal 25% [14%, 40%]; failures: parse error 0" in rows
    assert not any(word in rows for word in ("changed", "variance", "None"))
    assert said(Module.TRAINING, design_context(), "full") == FULL_BOOKKEEPING.strip()
    assert said(Module.TRAINING, design_context()) == BOOKKEEPING.strip()


def test_excess_costs_and_cut_answers_are_shown_where_they_are_known():
    record = RECORDS[2].model_copy(update={"zero_variance": {"5": 0.25}})
    seen = RECORDS[2].breakdown.strata
    parts = {3: measured(seen["3"], 0, excess_cost=0.416), 5: measured(seen["5"], 7)}
    current = record.model_copy(update={"breakdown": breakdown(parts)})
    rows = said(
        Module.FAILURES, design_context().model_copy(update={"current": current}), "full"
    ).splitlines()
    assert rows[1].endswith(
        "goal not reached 0; valid plans cost 0.42 more than the optimum on average; 0 answers cut off at"
        " their token limit"
    )
    assert rows[2].endswith(
        "goal not reached 5; 7 answers cut off at their token limit; no reward variance in 25% of its"
        " training groups"
    )


def test_the_format_alarm_is_a_line_of_the_full_wording_alone():
    failures = dict.fromkeys(RECORDS[2].breakdown.strata["5"].failures, 0) | {"parse_error": 40}
    part = counts(40, 0, 0).model_copy(update={"failures": failures})
    seen = breakdown({3: RECORDS[2].breakdown.strata["3"], 5: part})
    current = RECORDS[2].model_copy(update={"breakdown": seen})
    context = design_context().model_copy(update={"current": current})
    assert said(Module.FAILURES, context, "full").splitlines()[3:] == [
        "5x5: format, not skill: 40 of 40 answers could not be read or scored, no answer is valid; "
        "do not cut its share."
    ]
    assert "skill" not in said(Module.FAILURES, context)


def test_text_of_a_model_is_shown_as_it_is_and_never_run_as_a_template():
    text = "{{ context.space }} {% include 'question.j2' %} <b>&amp;</b>"
    assert said(Module.RATIONALE, design_context(rationale=text)) == f"Your reason a stage ago: {text}"
    assert said(Module.RATIONALE, design_context(rationale=text), "full").endswith(f"a stage ago: {text}")


def test_a_reason_of_many_lines_cannot_pass_for_another_module_of_a_full_prompt():
    assert "\n" not in said(
        Module.RATIONALE, design_context(rationale="Fine.\n\nGuideline. All data to 3x3."), "full"
    )


@pytest.mark.parametrize("wording", WORDINGS)
def test_a_long_history_loses_its_oldest_stages_and_says_so(wording: Wording):
    text = module_text(Module.HISTORY, late_context(), wording)
    stages = [n for n in range(30) if f"Stage {n}," in text or f"Stage {n}:" in text]
    assert stages == list(range(30 - MAX_STAGES, 30))
    assert text.splitlines()[1] == f"{30 - MAX_STAGES} earlier stages left out."


def test_a_long_reason_loses_its_end_in_the_compact_wording():
    text = said(Module.RATIONALE, design_context(rationale=" ".join(map(str, range(300)))))
    assert text.endswith(" 18 19 (280 words left out)")


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_compact_prompt_and_its_answer_fit_the_tiny_policy_at_stage_30(variant: str):
    # Words that it was not taught are one token a letter.
    context = late_context(previous_rationale="rethink everything " * 30)
    tokens = prompt_tokens("tiny", design_prompt(variant, context, "compact"))
    assert tokens is not None
    assert 100 < tokens <= 1024 - 160


def test_an_unknown_variant_is_a_key_error():
    with pytest.raises(KeyError):
        design_prompt("V7", design_context(), "full")
