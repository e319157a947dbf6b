"""The numbers of a round whose answers are known."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from study_rounds import ARMS, SPEC, small_sets, write

from envgen.breakdown import Difference, wilson
from envgen.errors import DataError
from envgen.mapf.verifier import FailureCategory
from infra.analysis.gather import change, final
from infra.analysis.results import BASELINES
from infra.analysis.statistics import effect, holm
from infra.analysis.study.engineers import Conduct
from infra.analysis.study.findings import Parting, RoundFindings, find, policies
from infra.analysis.study.records import RoundData, StoredRun, read_round
from infra.runs.results import StageResult
from policy.grpo.pilot import Grounded


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> list[RoundData]:
    data, sets = tmp_path_factory.mktemp("data"), small_sets()
    for number in (1, 2):
        write(data, SPEC, number, sets=sets)
    return [read_round(data, number) for number in (1, 2)]


@pytest.fixture(scope="module")
def first(rounds: list[RoundData]) -> RoundFindings:
    return find(rounds[0])


def test_rates_are_means_over_seeds_and_those_of_shared_policies_over_instances(first: RoundFindings):
    assert [one.result.valid for one in first.shared] == [wilson(4, 20), wilson(6, 20)]
    fixed, random, checkpoint = (arm.result for arm in first.arms)
    assert [arm.result.label for arm in first.arms] == list(ARMS)
    assert (fixed.valid.value, random.valid.value, checkpoint.valid.value) == pytest.approx(
        (0.4, 0.4 + 0.1 / 3, 0.5)
    )
    assert tuple(random.final_by_seed.values()) == pytest.approx((0.4, 0.5, 0.4))
    assert checkpoint.optimal == checkpoint.valid, "right answers are optimal here"
    assert (
        checkpoint.against["start"].valid.value,
        checkpoint.against["stage 0"].valid.value,
    ) == pytest.approx((0.3, 0.2))
    assert (first.instances, first.answers) == ({"test": 20, "validation": 20}, 20 * (2 * 2 + 9 * 2))


def test_differences_are_those_of_the_change_and_one_family(first: RoundFindings, rounds: list[RoundData]):
    runs = policies(rounds[0], "test")
    found = {(arm, base): one for arm in ARMS for base in BASELINES if (one := first.against[base].get(arm))}
    assert set(found) == {("checkpoint-V6", "random"), ("checkpoint-V6", "fixed"), ("random", "fixed")}
    assert [one.value for one in found.values()] == pytest.approx([0.1 / 3, 0.2 / 3, 0.1]), (
        "random to fixed, checkpoint to random, to fixed"
    )
    assert [one.adjusted_p for one in found.values()] == pytest.approx(
        holm([one.p for one in found.values()])
    )
    assert (
        found["checkpoint-V6", "random"].p == effect(change(runs["checkpoint-V6"], runs["random"], "valid")).p
    )
    assert first.comparisons == 3


def test_strata_split_the_test_and_add_up(first: RoundFindings):
    strata = {one.name: one for one in first.strata}
    assert list(strata) == [
        "2 agents, 7×7",
        "3 agents, 4×4",
        "a wait is needed",
        "no wait is needed",
        "all boards, optimal plans",
        "validation set",
    ]
    assert strata["a wait is needed"].instances + strata["no wait is needed"].instances == 20
    assert strata["validation set"].rates["checkpoint-V6"].value == pytest.approx(0.5)
    assert strata["validation set"].against["random"]["checkpoint-V6"].value == pytest.approx(0.2 / 3)
    for one in first.strata[:2]:
        assert one.rates["start"] == wilson(2, 10)
        assert one.against["random"]["checkpoint-V6"].value == pytest.approx(0.2 / 3)
        assert one.against["fixed"].keys() == {"checkpoint-V6", "random"}
        assert one.against["fixed"]["random"].adjusted_p is None


def test_curves_are_of_the_validation_set_from_the_base_policy_on(first: RoundFindings):
    curve = first.arm("checkpoint-V6").result
    assert [rate.value for rate in curve.valid_curve] == pytest.approx([0.2, 0.3, 0.5])
    assert (curve.engineer, curve.seeds) == ("checkpoint", (0, 1, 2))


def test_curves_part_where_all_intervals_from_there_on_leave_out_zero(first: RoundFindings):
    [parting] = [one for one in first.parted("fixed", "valid") if one.arm == "checkpoint-V6"]
    [after] = parting.stages
    assert after.value == pytest.approx(0.1), "one of ten more than fixed after stage 1"
    validation = first.validation.against["fixed"]["checkpoint-V6"]
    assert (after.low, after.high) == (validation.low, validation.high), "the last stage is the end"
    assert {(one.minus, one.measured) for one in first.partings} == {
        (base, rate) for base in BASELINES for rate in ("valid", "optimal")
    }


@pytest.mark.parametrize(
    ("signs", "since"),
    [("0+0++", 4), ("-++", 2), ("--", 1), ("++0", None), ("+-", 2), ("", None)],
)
def test_a_parting_is_the_first_stage_after_which_the_sign_stays(signs: str, since: int | None):
    bounds = {"0": (-1.0, 1.0), "+": (0.5, 1.0), "-": (-1.0, -0.5)}
    one = effect(np.eye(2))
    stages = tuple(
        one.model_copy(update=dict(zip(("low", "high"), bounds[sign], strict=True))) for sign in signs
    )
    assert Parting(arm="a", minus="b", measured="valid", stages=stages).since == since


def test_failures_are_shares_of_all_answers(first: RoundFindings):
    assert first.arm("checkpoint-V6").failures[FailureCategory.PARSE_ERROR] == pytest.approx(0.5)
    assert sum(first.shared[0].failures.values()) == pytest.approx(0.8)


def conduct_of(found: RoundFindings, arm: str) -> Conduct:
    conduct = found.arm(arm).conduct
    assert conduct
    return conduct


def test_configs_and_behaviour_are_means_over_the_runs(first: RoundFindings):
    fixed, checkpoint = (conduct_of(first, name) for name in ("fixed", "checkpoint-V6"))
    assert [one.means["wait_ratio"] for one in checkpoint.configs] == pytest.approx([0.25, 0.5])
    assert checkpoint.configs[1].shares == pytest.approx({"3": 0.3, "4": 0.7}), (
        "0.2, 0.3 and 0.4 after stage 0"
    )
    assert checkpoint.configs[1].means["size"] == pytest.approx(3.7)
    assert [one.different for one in checkpoint.configs] == [1, 3]
    assert [one.different for one in fixed.configs] == [1, 1]
    assert fixed.behaviour.means["edit_wait_ratio"]
    assert (fixed.behaviour.means["edit_wait_ratio"].value, fixed.behaviour.means["agreement"]) == (0, None)
    behaviour = checkpoint.behaviour
    assert behaviour.means["true_claims"]
    assert (behaviour.means["true_claims"].value, behaviour.means["true_claims"].count) == (0.5, 6), (
        "more waits are true after stage 0 and not again after stage 1"
    )
    assert fixed.behaviour.means["true_claims"] is None
    assert (
        behaviour.proposals,
        behaviour.kept,
        behaviour.projected,
        behaviour.answers,
        behaviour.unreadable,
    ) == (6, 3, 6, 12, 6)
    assert checkpoint.steps == (8,)
    result = first.arm("checkpoint-V6").result
    assert (result.seconds, result.tokens["training"]) == (1_800, 2_000)


def test_pilots_are_paired_with_the_gain_of_their_stage(first: RoundFindings):
    assert {(pair.stage, round(pair.scores["advantage"], 1)) for pair in first.pilot.stages} == {
        (1, 0.3),
        (1, 0.4),
        (1, 0.5),
    }
    assert len(first.pilot.stages) == 9
    assert first.pilot.by_stage == {1: first.pilot.pooled}


def test_knobs_are_correlated_with_the_gain_of_their_stage(first: RoundFindings):
    assert {one.score for one in first.configs.pooled} <= {"wait_ratio", "size", "hole_ratio"}
    assert all(one.stages == 9 for one in first.configs.pooled), "stage 0 is no redesign"
    assert first.configs.by_stage == {1: first.configs.pooled}


def test_where_each_seed_has_a_stage_0_arms_are_measured_against_that_of_their_seed(rounds: list[RoundData]):
    second = find(rounds[1])
    assert [list(one.result.final_by_seed.values()) for one in second.shared] == [[0.2], [0.5, 0.3]], (
        "seeds 3 and 4"
    )
    assert second.shared[1].result.valid.value == pytest.approx(0.4)
    fixed, checkpoint = (second.arm(name).result for name in ("fixed", "checkpoint-V6"))
    assert (
        fixed.against["start"].valid.value,
        fixed.against["stage 0"].valid.value,
        checkpoint.against["stage 0"].valid.value,
    ) == pytest.approx((0.2, 0.0, 0.1))
    assert final(policies(rounds[1], "test")["stage 0"], "valid").mean(axis=1) == pytest.approx([0.5, 0.3])
    assert {one.rates["stage 0"].value for one in second.strata[:2]} == {0.4}
    assert [rate.value for rate in fixed.valid_curve] == pytest.approx([0.2, 0.4, 0.4])


def test_what_a_seeds_own_stage_0_does_to_all_arms_is_no_correlation(rounds: list[RoundData]):
    shared, apart = find(rounds[0]).pilot, find(rounds[1]).pilot
    assert (shared.within_seeds, apart.within_seeds) == (False, True)
    for seed in (3, 4):
        of_seed = [pair for pair in apart.stages if pair.run.endswith(f"-s{seed}")]
        assert len(of_seed) == 4
        assert sum(pair.gain for pair in of_seed) == pytest.approx(0)
        assert [
            sum(pair.scores[name] for pair in of_seed) for name in ("advantage", "mixed")
        ] == pytest.approx([0, 0])


def with_stages(run: StoredRun, change: Callable[[StageResult], StageResult]) -> StoredRun:
    """A run whose stages are changed."""
    stages = tuple(map(change, run.results.stages))
    return run.model_copy(update={"results": run.results.model_copy(update={"stages": stages})})


def found_with(data: RoundData, runs: list[StoredRun]) -> RoundFindings:
    return find(dataclasses.replace(data, stored=data.stored.model_copy(update={"runs": tuple(runs)})))


def test_a_score_that_some_pilots_lack_is_taken_less_the_mean_of_the_others(rounds: list[RoundData]):
    changed = Difference(value=0.1, low=0.0, high=0.2)
    grounded = {"grounded": Grounded(steps=2, instances=8, valid=changed, completion_tokens=1)}

    def scored(stage: StageResult) -> StageResult:
        pilots = [
            one.model_copy(update={"score": one.score and one.score.model_copy(update=grounded)})
            for one in stage.pilots
        ]
        return stage.model_copy(update={"pilots": tuple(pilots)})

    first, *others = rounds[1].stored.runs
    found = found_with(rounds[1], [with_stages(first, scored), *others])
    have = [pair for pair in found.pilot.stages if "grounded" in pair.scores]
    assert have
    assert len(have) < len(found.pilot.stages)
    assert all(pair.scores["grounded"] == 0 for pair in have)


def test_the_engineers_questions_after_a_shared_stage_0_cost_what_they_cost(rounds: list[RoundData]):
    def priced(stage: StageResult) -> StageResult:
        return stage.model_copy(update={"proposal": stage.proposal.model_copy(update={"cost": 0.5})})

    runs = [with_stages(run, priced) for run in rounds[0].stored.runs]
    questions = sum(len(run.results.stages) for run in runs)
    assert found_with(rounds[0], runs).made.cost == 0.5 * questions


def test_the_whole_cost_counts_every_stage_0_once(first: RoundFindings, rounds: list[RoundData]):
    assert first.seconds == 9 * 1_800 + 60
    assert find(rounds[1]).seconds == 8 * 1_800 + 2 * 60


def test_an_arm_that_lost_seeds_is_compared_over_those_it_has(rounds: list[RoundData]):
    stored = rounds[0].stored
    short = stored.model_copy(update={"runs": tuple(run for run in stored.runs if run.policy != "random-s1")})
    found = find(dataclasses.replace(rounds[0], stored=short))
    assert (
        found.arm("random").result.seeds,
        *(found.against[base]["checkpoint-V6"].seeds for base in ("random", "fixed")),
    ) == ((0, 2), 2, 3)
    lone = stored.model_copy(update={"runs": tuple(run for run in short.runs if run.policy != "random-s0")})
    apart = stored.model_copy(
        update={"runs": tuple(run for run in short.runs if run.policy != "checkpoint-V6-s0")}
    )
    with pytest.raises(DataError, match="1 seeds in common"):
        find(dataclasses.replace(rounds[0], stored=apart))
    with pytest.raises(DataError, match="fewer than two curricula of random"):
        find(dataclasses.replace(rounds[0], stored=lone))


def test_missing_answers_are_named(rounds: list[RoundData]):
    outcomes = {key: found for key, found in rounds[0].outcomes.items() if key != ("random-s1", 1, "test")}
    with pytest.raises(DataError, match="random-s1"):
        find(dataclasses.replace(rounds[0], outcomes=outcomes))


def test_an_answer_that_changed_changes_the_round(rounds: list[RoundData], tmp_path: Path):
    write(tmp_path, SPEC, 1, right=lambda policy, stage, name: 10, sets=rounds[0].instances)
    found = find(read_round(tmp_path, 1))
    assert [arm.result.valid for arm in found.arms] == [wilson(20, 20)] * 3
    assert np.all(
        [one.value == 0 == one.sign for against in found.against.values() for one in against.values()]
    )
