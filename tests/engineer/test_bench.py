"""EnvEngineerBench: traps catch the rules that they were made to catch, and scores follow from games."""

import numpy as np
import pytest
from scipy.special import logit

from engineer.bench.play import STAGES, Played, look_ahead, play, scored
from engineer.bench.worlds import KINDS, NOTHING, TRAPS, World, default_config, draw_world, space_of
from engineer.spec import EngineerSpec
from policy.learner import Learner

FEW, MANY = 6, 30
"""Draws of a trap."""
UNGUARDED = {"floor": 0, "reversion": 0, "alarm": False}


def gains(trap: str, name: str, draws: int = FEW, **options: object) -> np.ndarray:
    """Points that an engineer ends above `fixed`, by draw."""
    specs = EngineerSpec(name=name, options=options), EngineerSpec(name="fixed")
    own, fixed = (np.array([play(trap, draw, spec).score for draw in range(draws)]) for spec in specs)
    return 100 * (own - fixed)


def test_guards_keep_frontier_out_of_the_format_trap():
    assert gains("format failure", "frontier").mean() > 0.5
    assert gains("format failure", "frontier", **UNGUARDED).mean() < -1


@pytest.mark.slow
@pytest.mark.parametrize("trap", TRAPS)
def test_frontier_beats_fixed_in_every_trap_and_loses_nothing_where_there_is_nothing_to_gain(trap: str):
    own = gains(trap, "frontier", MANY)
    if trap == NOTHING:
        assert own.mean() > -1
        return
    fixed = np.array([play(trap, draw, EngineerSpec(name="fixed")).score for draw in range(MANY)])
    best = np.array([look_ahead(trap, draw).score for draw in range(MANY)])
    assert own.mean() > 2 * own.std(ddof=1) / np.sqrt(MANY)
    assert own.mean() < 100 * (best - fixed).mean(), "the look-ahead is beaten"


@pytest.mark.parametrize("trap", TRAPS)
def test_a_draw_is_the_same_each_time_and_a_default_config_fits_it(trap: str):
    first, again, other = (draw_world(trap, draw) for draw in (3, 3, 4))
    assert np.array_equal(first.skills, again.skills)
    assert first.skills.shape != other.skills.shape or not np.array_equal(first.skills, other.skills)
    space = space_of(first)
    space.check(default_config(space))
    random = EngineerSpec(name="random")
    assert play(trap, 3, random) == play(trap, 3, random)
    assert play(trap, 3, random).asked == STAGES - 1


def test_only_strata_with_data_and_signal_are_learned_and_the_others_are_forgotten():
    skills = np.array([[0.0, 0.0, 9.0], [0.0, 0.0, 9.0], [-20.0, 0.0, 9.0]])
    world = World(skills=skills, rate=0.25, transfer=0, rest=skills - 1)
    after = world.stage(skills, np.array([0.5, 0.0, 0.5]), np.full(3, 0.5), None)[:, 0]
    assert after[0] > 0.3
    assert after[1] < -0.3
    assert after[2] == pytest.approx(-20, abs=1e-3)


def test_copies_of_a_learner_learn_as_each_of_them_alone():
    world, rng = draw_world("ladder", 0), np.random.default_rng(0)
    shares, tricks = rng.dirichlet(np.ones(len(world.skills)), 5), rng.random((5, len(world.skills)))
    copies = world.stage(np.broadcast_to(world.skills, (5, *world.skills.shape)), shares, tricks, None)
    alone = [world.stage(world.skills, *each, None) for each in zip(shares, tricks, strict=True)]
    assert np.allclose(copies, alone)


def test_a_ladder_needs_all_lower_strata():
    half, learner = np.array([[0.0, 0.0, 99.0]] * 3), Learner(ladder=True)
    assert learner.right(half, KINDS)[:, 0] == pytest.approx([0.5, 0.25, 0.125])
    mastered = half.copy()
    mastered[:2, 0] = logit(0.9)
    assert learner.right(mastered, KINDS)[2, 0] == pytest.approx(0.9 * 0.9 * 0.5)


def test_scores_are_ratios_of_mean_gains_with_intervals_over_draws():
    def games(*gains: float) -> list[Played]:
        played = [("ladder", gain) for gain in gains] + [(NOTHING, 0.0)] * len(gains)
        counted = {"used": 4, "asked": 5, "tokens": (6, 4)}
        return [Played(trap=trap, score=0.5 + gain, **counted) for trap, gain in played]

    fixed, best = games(0, 0, 0, 0), games(0.1, 0.3, 0.2, 0.2)
    score = scored("mine", games(0.05, 0.15, 0.1, 0.1), fixed, best)
    share = score.shares["ladder"]
    assert (share.value, share.low, share.high) == pytest.approx((0.5, 0.5, 0.5)), "half of it in each draw"
    assert NOTHING not in score.shares
    assert score.overall == share
    gain = score.gains["ladder"]
    assert gain.value == pytest.approx(0.1)
    # Student's quantile for 3 degrees of freedom, the standard error of four gains.
    assert gain.high - gain.value == pytest.approx(3.1824 * np.std([5, 15, 10, 10], ddof=1) / 200, rel=1e-3)
    assert gain.p < 0.05
    assert (score.used, score.asked, score.tokens) == (32, 40, (48, 32))
    assert scored("look-ahead", best, fixed, best).overall.value == 1
    nothing = scored("fixed", fixed, fixed, best)
    assert (nothing.overall.value, nothing.overall.p) == (0, 1)
    assert nothing.gains[NOTHING].p == 1
