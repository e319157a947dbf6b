"""The gate: which drops count, and what follows from them."""

import numpy as np
import pytest

from engineer.gate import BASE_POLICY, decide
from envgen.estimates import Difference, difference

DROP, RISE, SAME, DOUBT = (
    Difference(value=value, low=low, high=high, p=p)
    for value, low, high, p in (
        *((-0.1, -0.15, -0.05, 0.001), (0.1, 0.05, 0.15, 0.001)),
        *((0.0, -0.01, 0.01, 1.0), (-0.1, -0.25, 0.001, 0.051)),
    )
)


@pytest.mark.parametrize("gate", ["off", "rollback"])
@pytest.mark.parametrize(("valid", "best"), [(RISE, 2), (SAME, 1), (DOUBT, 1)])
def test_without_a_shown_drop_the_run_goes_on_and_of_equals_the_earlier_is_the_best(gate, valid, best: int):
    decision = decide(gate, 2, 1, valid)
    assert (decision.action, decision.in_force, decision.dropped) == ("go-on", 2, False)
    assert decision.best == best
    assert "no drop is shown" in decision.reason


@pytest.mark.parametrize(("gate", "action", "in_force"), [("off", "go-on", 3), ("rollback", "rollback", 1)])
def test_a_drop_has_the_consequence_that_was_asked_for(gate, action, in_force):
    decision = decide(gate, 3, 1, DROP)
    assert decision.dropped
    assert (decision.action, decision.in_force, decision.best) == (action, in_force, 1)
    assert "-10.0 points [-15.0, -5.0] against stage 1, p = 0.001: a drop" in decision.reason


def test_a_first_stage_that_does_harm_is_rolled_back_to_the_base_policy():
    decision = decide("rollback", 0, BASE_POLICY, DROP)
    assert (decision.action, decision.in_force) == ("rollback", BASE_POLICY)
    assert "the next stage starts from the base policy with the config of stage 0" in decision.reason


@pytest.mark.parametrize(("lost", "dropped"), [(4, False), (5, True)])
def test_few_changed_instances_are_no_drop(lost: int, dropped: bool):
    change = np.array([-1] * lost + [0] * (54 - lost))
    assert decide("rollback", 1, 0, difference(change)).dropped == dropped
