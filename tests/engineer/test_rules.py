"""The engineers that are rules, against numbers computed by hand."""

import math

import numpy as np
import pytest
from contexts import LATEST, RECORDS, assert_legal, boards, design_context, env_config, repeatable
from hypothesis import given
from hypothesis import strategies as st
from support.designs import random_context

from engineer.context import DesignContext
from engineer.engineers.rules import (
    FrontierOptions,
    LevelsOptions,
    frontier_shares,
    levelled,
    softmax_shares,
    updated_values,
)
from engineer.proposal import Proposal
from engineer.propose import design
from engineer.spec import EngineerSpec
from envgen.breakdown import Breakdown
from envgen.config import EnvConfig

RULES = ("frontier", "bandit", "levels", "random")


def proposal_of(engineer: str, context: DesignContext | None = None, **options: object) -> Proposal:
    spec = EngineerSpec(name=engineer, options=options)
    return design(spec, context or design_context(), 0, None, lambda config: (config, []))


def shares_of(config: EnvConfig) -> dict[str, float]:
    return {name: part.data_ratio for name, part in config.strata.items()}


# frontier


@pytest.mark.parametrize(
    ("shares", "rates", "expected"),
    [
        # Half of the way to the variances 0.25, 0.16 and 0.09: targets 0.5, 0.32 and 0.18.
        ([0.2, 0.3, 0.5], [0.5, 0.8, 0.1], [0.35, 0.31, 0.34]),
        # The second and third have 0.4 and 0.6 of their old budget and equal variances; the solved first is
        # rehearsed, which leaves 0.95, and the last never succeeds.
        ([0.4, 0.2, 0.3, 0.1], [0.99, 0.5, 0.5, 0.01], [0.05, 0.95 * 0.45, 0.95 * 0.55, 0]),
        # One that was cut comes back when it is within reach.
        ([1, 0], [0.5, 0.5], [0.75, 0.25]),
        ([0, 1], [0.5, 0], [1, 0]),
        # Without any signal there is nothing to say.
        ([0.5, 0.5], [0, 0], None),
        ([0.5, 0.5], [1, 1], None),
        ([0.5, 0.5], [1, 0], None),
    ],
)
def test_the_frontier_moves_shares_towards_the_variance_of_the_reward(
    shares: list[float], rates: list[float], expected: list[float] | None
):
    old, valid = (dict(zip("3456", values, strict=False)) for values in (shares, rates))
    moved = frontier_shares(old, valid, FrontierOptions())
    assert (moved and list(moved.values())) == (expected and pytest.approx(expected))


def test_many_solved_sizes_leave_half_of_the_budget_to_the_others():
    solved = {str(number): 1.0 for number in range(22)}
    rates = {**solved, "hard": 0.5}
    moved = frontier_shares(dict.fromkeys(rates, 1 / 23), rates, FrontierOptions())
    assert moved is not None
    assert moved["hard"] == pytest.approx(0.5)
    assert sum(moved.values()) == pytest.approx(1)


def test_the_frontier_engineer_moves_shares_and_leaves_the_other_knobs():
    proposal = proposal_of("frontier")  # 3x3 is solved (40 of 40), 5x5 is at 50 %
    assert proposal.config == env_config({3: (0.05, 0.35, 0.75), 5: (0.95, 0.2, 0.1)})
    assert proposal.rationale == "Data to the map sizes nearest 50 % valid: 3x3 5 %, 5x5 95 %."
    assert (proposal.changes, proposal.fallback, proposal.state) == ((), None, {})


def test_a_size_that_was_not_evaluated_keeps_its_share():
    current = RECORDS[0].model_copy(
        update={"breakdown": Breakdown(strata={"5": RECORDS[0].breakdown.strata["5"]})}
    )
    context = design_context(0).model_copy(update={"current": current})
    assert shares_of(proposal_of("frontier", context).config) == {"3": 0.5, "5": 0.5}


# bandit


def test_a_value_moves_towards_the_mean_absolute_advantage_of_the_stage():
    assert updated_values({"3": 0.0, "4": 0.4, "5": 0.3}, {"3": 0.8, "4": 0.0}, 0.25) == pytest.approx(
        {"3": 0.2, "4": 0.3, "5": 0.3}
    )


def test_shares_are_the_softmax_of_the_values():
    assert softmax_shares({"3": 0.0, "5": math.log(3)}, 1.0) == pytest.approx({"3": 0.25, "5": 0.75})
    assert softmax_shares({"3": 0.0, "5": math.log(3)}, 0.5) == pytest.approx({"3": 0.1, "5": 0.9})
    assert softmax_shares({"3": 0.7, "5": 0.7}, 0.01) == {"3": 0.5, "5": 0.5}


def advantages(stage: int, state: dict, **found: float) -> DesignContext:
    context = design_context(stage)
    record = context.current.model_copy(
        update={"advantage": {name[1:]: value for name, value in found.items()}}
    )
    return context.model_copy(update={"current": record, "state": state})


def test_the_bandit_remembers_its_values_from_stage_to_stage():
    first = proposal_of("bandit", advantages(0, {}, s3=0.2, s5=0.8))
    assert first.state == {"values": {"3": 0.1, "5": 0.4}}
    # softmax of 0.1 / 0.5 and 0.4 / 0.5: 1 / (1 + e^0.6) and the rest.
    assert shares_of(first.config) == pytest.approx({"3": 0.3543, "5": 0.6457})
    stored = advantages(1, first.state, s5=0.0).model_dump_json()
    second = proposal_of("bandit", DesignContext.model_validate_json(stored), temperature=0.1)
    assert second.state == {"values": {"3": 0.1, "5": 0.2}}
    assert shares_of(second.config) == pytest.approx({"3": 0.2689, "5": 0.7311})  # 1 / (1 + e)


def test_a_damaged_state_costs_the_redesign_and_not_the_run():
    proposal = proposal_of("bandit", advantages(2, {"values": {"3": "much"}}))
    assert proposal.config == LATEST
    assert (
        proposal.fallback == "engineer 'bandit' failed, the previous config is kept: "
        "ValueError: could not convert string to float: 'much'"
    )


# levels

LADDER = boards(3, 4, 5, low=0.2, high=0.4)


def level(
    sizes: dict[int, tuple[float, float, float]], rates: dict[int, float], **options: object
) -> EnvConfig:
    by_name = {str(size): rate for size, rate in rates.items()}
    chosen = LevelsOptions.model_validate(options)
    return LADDER.config(levelled(env_config(sizes).strata, by_name, LADDER, chosen))


def test_a_size_climbs_above_70_percent_and_steps_down_below_30():
    sizes = {3: (0.4, 0.2, 0.25), 4: (0.3, 0.3, 0.5), 5: (0.3, 0.4, 0.5)}
    assert level(sizes, {3: 0.71, 4: 0.7, 5: 0.29}) == env_config(
        {3: (0.4, 0.3, 0.5), 4: (0.3, 0.3, 0.5), 5: (0.3, 0.3, 0.25)}
    )
    assert level(sizes, {3: 0.3}) == env_config(sizes)


def test_the_last_level_is_reached_knob_by_knob():
    sizes = {3: (0.4, 0.35, 1.0), 4: (0.3, 0.4, 0.9), 5: (0.3, 0.2, 0.1)}
    assert level(sizes, {3: 0.9, 4: 0.9, 5: 0.1}) == env_config(
        {3: (0.4, 0.4, 1.0), 4: (0.3, 0.4, 1.0), 5: (0.3, 0.2, 0.0)}
    )


def test_a_size_at_its_last_level_gives_to_its_neighbour():
    # 3x3 gives 0.2 up and 5x5 gives 0.15 down, both to 4x4.
    sizes = {3: (0.4, 0.4, 1.0), 4: (0.3, 0.3, 0.5), 5: (0.3, 0.2, 0.0)}
    found = level(sizes, {3: 0.9, 4: 0.5, 5: 0.1})
    assert shares_of(found) == pytest.approx({"3": 0.2, "4": 0.65, "5": 0.15})
    assert shares_of(level(sizes, {3: 0.9, 4: 0.5, 5: 0.5}, move=1)) == pytest.approx(
        {"3": 0, "4": 0.7, "5": 0.3}
    )
    ends = {3: (0.5, 0.2, 0.0), 4: (0.2, 0.3, 0.5), 5: (0.3, 0.4, 1.0)}
    assert level(ends, {3: 0.0, 4: 0.5, 5: 1.0}) == env_config(ends), "no smaller and no larger size"


def test_the_levels_engineer_says_what_became_harder():
    proposal = proposal_of("levels")  # 3x3 at 100 %, 5x5 at 50 %
    assert proposal.config == env_config({3: (0.7, 0.4, 1.0), 5: (0.3, 0.2, 0.1)})
    assert proposal.rationale == "Harder: 3x3; easier: none."


# all of them


@repeatable
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([(3,), (3, 10), (3, 4, 5, 6), tuple(range(3, 11))]),
    st.sampled_from(RULES),
)
def test_a_rule_is_legal_in_the_space_and_repeats_itself(seed: int, sizes: tuple[int, ...], rule: str):
    rng = np.random.default_rng(seed)
    context = random_context(rng, boards(*sizes, low=0.1, high=0.3))
    trained = {str(size): float(rng.uniform()) for size in sizes if rng.random() < 0.7}
    context = context.model_copy(
        update={"current": context.current.model_copy(update={"advantage": trained})}
    )
    proposal = proposal_of(rule, context)
    assert proposal.fallback is None
    if proposal.config != context.current.config:
        assert_legal(proposal.config, context.space)
    assert proposal == proposal_of(rule, context)


SHARE = st.floats(0, 1)


@repeatable
@given(
    st.dictionaries(st.integers(3, 10).map(str), st.tuples(SHARE, SHARE), min_size=1),
    st.floats(0.01, 100),
)
def test_shares_sum_to_one(sizes: dict[str, tuple[float, float]], temperature: float):
    total = sum(old for old, _ in sizes.values())
    old = {size: (values[0] / total if total > 0 else 1 / len(sizes)) for size, values in sizes.items()}
    after = {size: values[1] for size, values in sizes.items()}
    for shares in (
        frontier_shares(old, after, FrontierOptions()),
        softmax_shares(after, temperature),
    ):
        if shares is not None:
            assert sum(shares.values()) == pytest.approx(1)
            assert min(shares.values()) >= 0
