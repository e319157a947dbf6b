"""The gate: which drops count, and what follows from them."""

import pytest
from pydantic import ValidationError

from engineer.gate import START, GateDecision, decide
from envgen.breakdown import Difference

DROP, RISE, SAME, DOUBT = (
    Difference(value=value, low=low, high=high) for value, low, high in ((-0.1, -0.15, -0.05), (0.1, 0.05, 0.15), (0.0, 0.0, 0.0), (-0.1, -0.25, 0.001))
)


@pytest.mark.parametrize("gate", ["off", "keep-config", "rollback"])
@pytest.mark.parametrize("valid", [RISE, SAME, DOUBT])
def test_without_a_shown_drop_the_run_goes_on(gate, valid):
    decision = decide(gate, 2, 1, valid)
    assert (decision.action, decision.in_force, decision.dropped) == ("go-on", 2, False)
    assert "no drop is shown" in decision.reason


@pytest.mark.parametrize(("gate", "action", "in_force"), [("off", "go-on", 3), ("keep-config", "keep-config", 3), ("rollback", "rollback", 1)])
def test_a_drop_has_the_consequence_that_was_asked_for(gate, action, in_force):
    decision = decide(gate, 3, 1, DROP)
    assert decision.dropped
    assert (decision.action, decision.in_force, decision.best) == (action, in_force, 1)
    assert "-10.0% [-15.0%, -5.0%] against stage 1: a drop" in decision.reason


def test_the_best_is_the_highest_rate_and_of_equals_the_earlier():
    assert decide("rollback", 4, 2, RISE).best == 4
    assert decide("rollback", 4, 2, SAME).best == 2
    assert decide("rollback", 4, 2, DOUBT).best == 2


def test_a_first_stage_that_does_harm_is_rolled_back_to_the_start_policy():
    decision = decide("rollback", 0, START, DROP)
    assert (decision.action, decision.in_force) == ("rollback", START)
    assert "the next stage starts from the start policy" in decision.reason


def test_a_record_that_contradicts_itself_is_refused():
    fields = decide("rollback", 3, 1, DROP).model_dump() | {"in_force": 3}
    with pytest.raises(ValidationError, match="stage 3 is in force"):
        GateDecision(**fields)
