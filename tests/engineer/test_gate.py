"""The gate: which drops count, and what follows from them."""

import numpy as np
import pytest

from engineer.gate import BASE_POLICY, decide
from envgen.estimates import Difference, difference

DROP = Difference(value=-0.1, low=-0.15, high=-0.05, p=0.001)
RISE = Difference(value=0.1, low=0.05, high=0.15, p=0.001)
SAME = Difference(value=0.0, low=-0.01, high=0.01, p=1.0)
DOUBT = Difference(value=-0.1, low=-0.25, high=0.001, p=0.051)


@pytest.mark.parametrize("gate", ["off", "rollback"])
@pytest.mark.parametrize(("valid", "best"), [(RISE, 2), (SAME, 1), (DOUBT, 1)])
def test_without_a_shown_drop_the_run_goes_on_and_of_equals_the_earlier_is_the_best(gate, valid, best: int):
    decision = decide(gate, 2, 1, valid)
    assert (decision.action, decision.in_force, decision.dropped) == ("go-on", 2, False)
    assert decision.best == best
    assert decision.reason.endswith("no drop" if valid == RISE else "no drop is shown")


@pytest.mark.parametrize(
    ("best", "name", "config"), [(1, "stage 1", "stage 1"), (BASE_POLICY, "the base policy", "stage 0")]
)
def test_a_drop_has_the_consequence_that_was_asked_for(best: int, name: str, config: str):
    points = f"valid rate -10.0 points [-15.0, -5.0] against {name}, p = 0.001: a drop"
    back, off = (decide(gate, 3, best, DROP) for gate in ("rollback", "off"))
    assert (back.action, back.in_force, back.best, back.dropped) == ("rollback", best, best, True)
    assert back.reason == f"{points}; the next stage starts from {name} with the config of {config}"
    assert (off.action, off.in_force, off.best, off.dropped) == ("go-on", 3, best, True)
    assert off.reason == f"{points}; the gate is off"


@pytest.mark.parametrize(("lost", "dropped"), [(4, False), (5, True)])
def test_few_changed_instances_are_no_drop(lost: int, dropped: bool):
    change = np.array([-1] * lost + [0] * (54 - lost))
    assert decide("rollback", 1, 0, difference(change)).dropped == dropped
