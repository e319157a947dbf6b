"""What a warm start never teaches."""

import pytest

from envgen.mapf.benchmark import suite_identities
from infra.config.preset import TUNING_SEED, load_preset
from infra.config.recipe import load_recipe, recipe_fields
from infra.runs.run import validation_instances
from tasks.warm_start import held_out


@pytest.fixture(scope="module")
def found() -> frozenset[str]:
    return held_out(load_recipe(recipe_fields("tiny", "some/model"), {}))


def test_no_board_of_a_validation_or_tuning_set_is_taught(found: frozenset[str]):
    for settings in ({}, {"validation.seed": TUNING_SEED}):
        judged = {instance.problem.id for instance in validation_instances(load_preset("tiny", settings))}
        assert judged
        assert judged <= found


def test_no_board_of_the_benchmark_suite_is_taught(found: frozenset[str]):
    assert suite_identities(2) <= found
    assert not suite_identities(3) & found, "only as many agents as are taught"
