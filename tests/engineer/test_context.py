import pytest
from contexts import design_context
from pydantic import ValidationError

from engineer.context import DesignContext, FailedAnswer, StageRecord


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
    space = {"Space", "Stratum", "Knob", "Label"}
    record = {"StageRecord", "EnvConfig", "Part", "Breakdown", "Counts", "Labelled", "Difference"}
    assert parts == {*space, *record, "JsonValue", "FailedAnswer"}
    assert set(FailedAnswer.model_fields) == {"stratum", "question", "answer", "verdict"}, "of training"
    fields = {
        "space",
        "current",
        "history",
        "state",
        "previous_rationale",
        "stages",
        "instances",
        "epochs",
        "training",
        "examples",
    }
    assert set(DesignContext.model_fields) == fields
    assert DesignContext.model_fields["instances"].annotation is int, (
        "a number of instances, not the instances"
    )
    assert set(StageRecord.model_fields) == {
        "stage",
        "parent",
        "config",
        "breakdown",
        "advantage",
        "zero_variance",
        "change",
    }


def test_training_facts_are_plain_values_and_no_objects():
    values = dict(design_context())
    assert DesignContext(**values | {"training": {"reward": {"valid": 1.0}}}).training["reward"] == {
        "valid": 1.0
    }
    with pytest.raises(ValidationError, match="valid JSON"):
        DesignContext(**values | {"training": {"reward": print}})
