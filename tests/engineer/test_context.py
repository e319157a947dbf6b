import subprocess
import sys
from pathlib import Path

import pytest
from contexts import RECORDS, design_context
from pydantic import ValidationError

from engineer.context import VARIANTS, ConfigSpace, DesignContext, Module, StageRecord, design_prompt, module_text

HEAD = """\
Design the next training environment of a policy that moves several agents over grids with holes.
Current config:
3x3: data 0.70, holes 0.35, waits 0.75
5x5: data 0.30, holes 0.20, waits 0.10
"""
TAIL = """\
Answer with JSON only: a rationale of one or two sentences, then the config with data_ratio (share of the instances, all sizes sum to 1), \
hole_ratio (0.20 to 0.40) and wait_ratio (share of instances that need a wait) for each map size."""
FAILURES = """\
Answers of the policy after this stage:
3x3: valid 100%, optimal 88%, parse error 0%, illegal move 0%, hole collision 0%, conflict 0%, goal not reached 0%
5x5: valid 50%, optimal 25%, parse error 0%, illegal move 0%, hole collision 0%, conflict 38%, goal not reached 12%
"""
GUIDELINE = """\
Guideline: change little at a time and keep what works. Give most data to sizes that are solved about half of the time, \
less to sizes that are nearly always or nearly never solved. Ask for more waits where plans are mostly valid, for fewer where they mostly fail.
"""
STAGE_0 = """\
Stage 0, 3x3: data 0.50, holes 0.30, waits 0.25, then valid 90%
Stage 0, 5x5: data 0.50, holes 0.30, waits 0.25, then valid 20%
"""
STAGE_1 = """\
Stage 1, 3x3: data 0.60, holes 0.30, waits 0.50, then valid 95%
Stage 1, 5x5: data 0.40, holes 0.25, waits 0.00, then valid 30%
"""
HISTORY = f"Earlier stages:\n{STAGE_0}{STAGE_1}"
WITHOUT_DEFAULT = f"Earlier stages:\n{STAGE_1}"
RATIONALE = "Your reason a stage ago: Less of 5x5.\n"
BOOKKEEPING = "Training: stage 2 of stages 0 to 3 is done. Each stage has 480 instances and 2.00 epochs.\n"

MODULES = {
    Module.FAILURES: FAILURES,
    Module.GUIDELINE: GUIDELINE,
    Module.HISTORY: HISTORY,
    Module.HISTORY_WITHOUT_DEFAULT: WITHOUT_DEFAULT,
    Module.RATIONALE: RATIONALE,
    Module.BOOKKEEPING: BOOKKEEPING,
}
SHOWN = {
    "V1": FAILURES,
    "V2": FAILURES + GUIDELINE,
    "V3": FAILURES + GUIDELINE + HISTORY,
    "V4": FAILURES + GUIDELINE + WITHOUT_DEFAULT,
    "V5": FAILURES + GUIDELINE + WITHOUT_DEFAULT + RATIONALE,
    "V6": FAILURES + GUIDELINE + WITHOUT_DEFAULT + BOOKKEEPING,
    "V6S": FAILURES + GUIDELINE + WITHOUT_DEFAULT + RATIONALE + BOOKKEEPING,
}


@pytest.mark.parametrize("module", Module)
def test_a_module_says_its_paragraph(module: Module):
    assert module_text(module, design_context()) == MODULES[module].strip()


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_shows_its_modules_and_no_other(variant: str):
    assert design_prompt(variant, design_context()) == HEAD + SHOWN[variant] + TAIL


def test_after_stage_0_there_is_no_history_and_no_earlier_reason():
    context = design_context(stage=0)
    for module in (Module.HISTORY, Module.HISTORY_WITHOUT_DEFAULT, Module.RATIONALE):
        assert module_text(module, context) == ""
    assert design_prompt("V5", context) == design_prompt("V2", context)
    assert "\n\n" not in design_prompt("V6S", context)


def test_history_without_default_is_silent_until_a_designed_stage_is_history():
    context = design_context(stage=1)
    assert module_text(Module.HISTORY_WITHOUT_DEFAULT, context) == ""
    assert module_text(Module.HISTORY, context) == f"Earlier stages:\n{STAGE_0}".strip()


def test_a_map_size_without_answers_has_a_config_line_only():
    record = RECORDS[1].model_copy(update={"breakdown": RECORDS[1].breakdown.model_copy(update={"sizes": {3: RECORDS[1].breakdown.sizes[3]}})})
    context = design_context().model_copy(update={"history": (record,)})
    assert module_text(Module.HISTORY, context).splitlines()[2] == "Stage 1, 5x5: data 0.40, holes 0.25, waits 0.00"


def test_text_of_a_model_is_shown_as_it_is_and_never_run_as_a_template():
    text = "{{ context.space }} {% include 'question.j2' %} <b>&amp;</b>"
    assert module_text(Module.RATIONALE, design_context(rationale=text)) == f"Your reason a stage ago: {text}"


def test_an_unknown_variant_is_a_key_error():
    with pytest.raises(KeyError):
        design_prompt("V7", design_context())


@pytest.mark.parametrize("field", DesignContext.model_fields)
def test_a_design_context_is_read_only(field: str):
    context = design_context()
    with pytest.raises(ValidationError, match="frozen"):
        setattr(context, field, getattr(context, field))
    with pytest.raises(ValidationError, match="frozen"):
        delattr(context, field)


def test_a_design_context_takes_nothing_that_it_does_not_name():
    values = dict(design_context())
    assert DesignContext(**values) == design_context()
    for name in ("rewards", "validation", "instances_held_out"):
        with pytest.raises(ValidationError, match="Extra inputs"):
            DesignContext(**values, **{name: 1})


def test_a_design_context_holds_no_reward_and_no_instance_by_type():
    parts = set(DesignContext.model_json_schema()["$defs"])
    assert parts == {"ConfigSpace", "StageRecord", "EnvConfig", "SizeConfig", "Breakdown", "SizeBreakdown", "FailureCategory", "Difference"}
    assert set(DesignContext.model_fields) == {"space", "current", "history", "state", "previous_rationale", "stages", "instances", "epochs"}
    assert DesignContext.model_fields["instances"].annotation is int, "a number of instances, not the instances"
    assert set(StageRecord.model_fields) == {"stage", "config", "breakdown", "advantage", "zero_variance", "change"}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"map_sizes": ()}, "at least 1"),
        ({"map_sizes": (5, 3)}, "must ascend"),
        ({"map_sizes": (3, 3)}, "must ascend"),
        ({"map_sizes": (2, 3)}, "greater than or equal to 3"),
        ({"map_sizes": (3,), "min_hole_ratio": 0.4, "max_hole_ratio": 0.2}, "exceeds max_hole_ratio"),
        ({"map_sizes": (3,), "max_hole_ratio": 0.6}, "less than or equal to 0.5"),
        ({"map_sizes": (3,), "holes": 1}, "Extra inputs"),
    ],
)
def test_a_config_space_that_makes_no_sense_is_refused(fields: dict, reason: str):
    with pytest.raises(ValidationError, match=reason):
        ConfigSpace(**fields)


def test_prompts_are_written_without_any_model_library():
    code = """
import sys
from contexts import design_context
from engineer.context import VARIANTS, design_prompt
for variant in VARIANTS:
    print(len(design_prompt(variant, design_context())))
print(sorted({"torch", "transformers", "trl", "vllm", "prefect", "mlflow"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == [*(str(len(design_prompt(v, design_context()))) for v in VARIANTS), "[]"], done.stderr
