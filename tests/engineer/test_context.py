import pytest
from contexts import design_context
from pydantic import ValidationError

from engineer.context import DesignContext, FailedAnswer, StageRecord

FIELDS = "space current history state previous_rationale stages instances epochs training examples"


def test_a_design_context_is_read_only_and_takes_nothing_that_it_does_not_name():
    context = design_context()
    values = dict(context)
    for field, value in values.items():
        with pytest.raises(ValidationError, match="frozen"):
            setattr(context, field, value)
        with pytest.raises(ValidationError, match="frozen"):
            delattr(context, field)
    assert DesignContext(**values) == context
    for name in ("rewards", "validation", "instances_held_out"):
        with pytest.raises(ValidationError, match="Extra inputs"):
            DesignContext(**values, **{name: 1})


def test_a_design_context_holds_no_reward_and_no_instance_by_type():
    parts = set(DesignContext.model_json_schema()["$defs"])
    space = {"Space", "Stratum", "Knob", "Label"}
    record = {"StageRecord", "EnvConfig", "Part", "Breakdown", "Counts", "Labelled", "Difference"}
    assert parts == {*space, *record, "JsonValue", "FailedAnswer"}
    assert " ".join(FailedAnswer.model_fields) == "stratum question answer verdict", "of training"
    assert " ".join(DesignContext.model_fields) == FIELDS
    assert DesignContext.model_fields["instances"].annotation is int, "a number, not the instances"
    record = "stage parent config breakdown advantage zero_variance change"
    assert " ".join(StageRecord.model_fields) == record


def test_training_facts_are_plain_values_and_no_objects():
    values = dict(design_context()) | {"training": {"reward": {"valid": 1.0}}}
    assert DesignContext(**values).training["reward"] == {"valid": 1.0}
    with pytest.raises(ValidationError, match="valid JSON"):
        DesignContext(**values | {"training": {"reward": print}})
