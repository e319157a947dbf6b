"""What a start policy is taught."""

from envgen.benchmark import suite_identities
from infra.preset import load_preset
from infra.study.spec import load_study
from tasks.bootstrap import held_out
from tasks.data import validation_instances


def test_no_start_policy_is_taught_a_board_that_a_policy_is_judged_on():
    preset, spec = load_preset("tiny-wide"), load_study("small")
    found = held_out(preset, (2, 3))
    for name, judged in {"validation": validation_instances(preset), "test": spec.test.draw()}.items():
        assert {instance.problem.id for instance in judged} <= found, name
    assert suite_identities(2) | suite_identities(3) <= found
    assert suite_identities(3) - held_out(preset, (2,)), "only as many agents as are taught"
