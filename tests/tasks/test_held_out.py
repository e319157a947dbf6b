"""What the base policy is never taught."""

import pytest

from envgen.mapf.benchmark import suite_identities
from infra.config.preset import TUNING_SEED, load_preset
from infra.config.recipe import load_recipe
from infra.runs.run import validation_instances
from tasks.bootstrap import held_out


@pytest.fixture(scope="module")
def found() -> frozenset[str]:
    recipe = load_recipe(None, {})
    return held_out(recipe.model_copy(update={"lessons": recipe.lessons[:2]}))


def test_no_board_of_a_validation_or_tuning_set_is_taught(found: frozenset[str]):
    for settings in ({}, {"validation.seed": TUNING_SEED}):
        judged = {instance.problem.id for instance in validation_instances(load_preset("tiny", settings))}
        assert judged
        assert judged <= found


def test_no_board_of_the_benchmark_suite_with_as_many_agents_as_are_taught_is_taught(found: frozenset[str]):
    assert suite_identities(2) | suite_identities(3) <= found
    assert not suite_identities(4) & found, "only as many agents as are taught"
