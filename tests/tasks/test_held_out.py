"""What a warm start never teaches."""

from envgen.mapf.benchmark import suite_identities
from infra.config.preset import TUNING_SEED, load_preset
from infra.runs.run import validation_instances
from tasks.warm_start import held_out


def test_no_board_of_a_validation_or_tuning_set_or_of_the_benchmark_suite_is_taught():
    unseen = held_out(load_preset("tiny"))
    for settings in ({}, {"validation.seed": TUNING_SEED}):
        judged = {instance.problem.id for instance in validation_instances(load_preset("tiny", settings))}
        assert judged
        assert judged <= unseen
    assert suite_identities(2) <= unseen
    assert not suite_identities(3) & unseen, "only as many agents as are taught"
