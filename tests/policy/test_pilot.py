"""The pilot: expected learning signal of a few groups of answers."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envgen.dataset import USUAL
from envgen.mapf.config import BoardsConfig, SizeConfig
from envgen.mapf.prompts import PromptStyle, answer
from envgen.mapf.sampler import sample
from policy.chat.contract import Completion, Conversation, Progress, Sampling
from policy.grpo.pilot import Piloted, absolute_advantages, learnability, mixed_groups, pilot, spread
from policy.grpo.rewards import RewardWeights

GROUP = 4
CONFIG = BoardsConfig(sizes={3: SizeConfig(data_ratio=1, hole_ratio=0.2, wait_ratio=0.25)})


class Scripted:
    """Answers the n-th conversation with the n-th text."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress | None = None
    ) -> list[Completion]:
        assert len(conversations) == len(self.texts)
        return [
            Completion(text=text, prompt_tokens=10, completion_tokens=5, finish_reason="stop")
            for text in self.texts
        ]


def test_a_pilot_counts_the_groups_that_teach():
    instances = sample(CONFIG, 6, agents=2, seed=1)[0]
    right = [0, 4, 2, 1, 4, 0]  # of four answers to each instance
    texts = [
        answer(i.solution.plan) if n < k else ""
        for i, k in zip(instances, right, strict=True)
        for n in range(GROUP)
    ]
    how = (PromptStyle.COMPACT, Sampling(max_tokens=8), RewardWeights())
    score = pilot(Scripted(texts), USUAL.load(), instances, GROUP, *how)
    assert (score.groups, score.group_size) == (6, 4)
    assert score.mixed.value == pytest.approx(2 / 6)
    # Two of four: |a| = 0.5 / sqrt(1/3) each. One of four: (0.75 + 3 * 0.25) / 4 over 0.5.
    assert score.advantage.value == pytest.approx((0.5 / (1 / 3) ** 0.5 + 0.375 / 0.5) / 6, abs=1e-3)
    assert score.advantage.low < score.advantage.value < score.advantage.high
    assert score.valid.value == pytest.approx(11 / 24)
    # The sample variance: two of four 1/3, one of four 1/4.
    assert score.learnability
    assert score.learnability.value == pytest.approx((1 / 3 + 1 / 4) / 6)
    assert score.scores == {
        "advantage": score.advantage.value,
        "mixed": score.mixed.value,
        "learnability": score.learnability.value,
    }
    piloted = Piloted(config=CONFIG.config, score=score)
    assert piloted.value("learnability") == score.learnability.value
    assert piloted.value("grounded") == float("-inf")
    assert (score.prompt_tokens, score.completion_tokens) == (240, 120)


@given(st.integers(1, 50), st.integers(1, 60))
def test_a_spread_has_no_item_twice_and_gaps_of_one_width(total: int, count: int):
    chosen = spread(range(total), count)
    assert len(chosen) == min(total, count)
    gaps = {after - before for before, after in pairwise(chosen)}
    assert not gaps or 0 < max(gaps) <= min(gaps) + 1


@given(st.floats(0, 1))
@settings(deadline=None)
def test_the_learnability_of_many_groups_is_that_of_a_coin(chance: float):
    answers = np.random.default_rng(0).random((20_000, GROUP)) < chance
    assert learnability(answers.astype(float)).mean() == pytest.approx(chance * (1 - chance), abs=0.01)


def test_groups_of_equal_rewards_have_no_advantage():
    rewards = np.array([[0.1 + 0.2, 0.3, 0.3], [1.5, 1.5, 1.5]])
    assert not mixed_groups(rewards).any()
    assert absolute_advantages(rewards) == pytest.approx([0, 0], abs=1e-9)


@settings(derandomize=True, deadline=None)
@given(st.integers(2, 12).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), st.floats(0.1, 10))
def test_the_advantage_of_a_share_of_right_answers_is_that_of_a_coin(counts: tuple[int, int], reward: float):
    """|a| = 2 p (1 - p) / s with s^2 = n / (n - 1) p (1 - p), whatever the reward is worth."""
    n, right = counts
    p = right / n
    expected = 2 * (p * (1 - p) * (n - 1) / n) ** 0.5
    assert absolute_advantages(np.array([[reward] * right + [0.0] * (n - right)]))[0] == pytest.approx(
        expected, abs=5e-3
    )


def test_the_advantages_follow_the_scale_of_the_trainer():
    torch = pytest.importorskip("torch")
    rewards = np.random.default_rng(0).choice([0.0, 1.0, 1.5], size=(20, 8))
    grouped = torch.tensor(rewards, dtype=torch.float32)
    theirs = (grouped - grouped.mean(dim=1, keepdim=True)) / (grouped.std(dim=1, keepdim=True) + 1e-4)
    assert absolute_advantages(rewards) == pytest.approx(theirs.abs().mean(dim=1).tolist(), abs=1e-5)
    plain = np.abs(rewards - rewards.mean(axis=1, keepdims=True)).mean(axis=1)
    assert absolute_advantages(rewards, "none") == pytest.approx(plain)
    assert absolute_advantages(rewards, "batch") == pytest.approx(plain / (rewards.std(ddof=1) + 1e-4))
