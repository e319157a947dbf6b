"""The gate: which drops count, and what follows from them."""

import numpy as np
import pytest

from engineer.gate import BASE_POLICY, decide, sign_test
from envgen.breakdown import Difference, paired_difference

DROP, RISE, SAME, DOUBT = (
    Difference(value=value, low=low, high=high)
    for value, low, high in ((-0.1, -0.15, -0.05), (0.1, 0.05, 0.15), (0.0, 0.0, 0.0), (-0.1, -0.25, 0.001))
)


@pytest.mark.parametrize("gate", ["off", "rollback"])
@pytest.mark.parametrize("valid", [RISE, SAME, DOUBT])
def test_without_a_shown_drop_the_run_goes_on(gate, valid):
    decision = decide(gate, 2, 1, valid, 0.001)
    assert (decision.action, decision.in_force, decision.dropped) == ("go-on", 2, False)
    assert "no drop is shown" in decision.reason


@pytest.mark.parametrize(
    ("gate", "action", "in_force"),
    [("off", "go-on", 3), ("rollback", "rollback", 1)],
)
def test_a_drop_has_the_consequence_that_was_asked_for(gate, action, in_force):
    decision = decide(gate, 3, 1, DROP, 0.001)
    assert decision.dropped
    assert (decision.action, decision.in_force, decision.best) == (action, in_force, 1)
    assert "-10.0 points [-15.0, -5.0] against stage 1, p = 0.001: a drop" in decision.reason


def test_the_best_is_the_highest_rate_and_of_equals_the_earlier():
    assert decide("rollback", 4, 2, RISE, 0.001).best == 4
    assert decide("rollback", 4, 2, SAME, 0.001).best == 2
    assert decide("rollback", 4, 2, DOUBT, 0.001).best == 2


def test_a_first_stage_that_does_harm_is_rolled_back_to_the_base_policy():
    decision = decide("rollback", 0, BASE_POLICY, DROP, 0.001)
    assert (decision.action, decision.in_force) == ("rollback", BASE_POLICY)
    assert "the next stage starts from the base policy with the config of stage 0" in decision.reason


def test_the_sign_test_is_exact():
    assert [sign_test(0, losses) for losses in (0, 1, 4, 5, 6)] == [1.0, 1.0, 0.125, 0.0625, 0.03125]
    assert [sign_test(wins, 2) for wins in (2, 8)] == [1.0, pytest.approx(112 / 1024)]


def test_few_changed_instances_are_no_drop_however_sure_the_bootstrap_is():
    before, after = np.ones(54), np.array([0] * 4 + [1] * 50)
    valid = paired_difference(before, after)
    assert valid.high < 0
    assert not decide("rollback", 1, 0, valid, sign_test(0, 4)).dropped
