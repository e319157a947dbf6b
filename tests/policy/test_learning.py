"""Training learns what the reward says: in one step, and in thirty."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from boards import draw_instances, train_spec

from envgen.config import EnvConfig
from envgen.dataset import write_dataset
from envgen.environment import Source
from envgen.sampling import sample
from infra.config.preset import load_preset
from policy.grpo.saving import token_logprobs
from policy.grpo.train_log import read_train_log
from policy.grpo.train_spec import CHECKPOINT, TRAIN_LOG

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("sign", [1, -1], ids=["downhill on the loss", "uphill"])
def test_a_step_makes_rewarded_answers_likelier_and_the_others_less_likely(tmp_path, monkeypatch, sign: int):
    from policy.chat.transformers_model import load
    from policy.grpo import trainer, training

    answers: list[tuple[list[int], list[int], float, int]] = []

    def constructed(name: str) -> Callable[..., list[float]]:
        def reward(completions: list, completion_ids: list, index: list, **_: Any) -> list[float]:
            # Whatever the answer says: 1 if the sum of its tokens is even.
            rewards = [float(sum(ids) % 2 == 0) for ids in completion_ids]
            if name == "valid":
                answers.extend(zip(prompt_tokens(index), completion_ids, rewards, index, strict=True))
            return rewards

        reward.__name__ = name
        return reward

    spec = train_spec(tmp_path, draw_instances(8), per_device_train_batch_size=64, num_generations=8)
    spec = spec.model_copy(update={"trl": spec.trl | {"beta": 0.0, "learning_rate": 2e-4, "max_steps": 1}})
    before, tokenizer = load(spec.parent)
    prompts = training.training_rows(spec.environment.load(), spec.data)["prompt"]

    def prompt_tokens(index: list[int]) -> list[list[int]]:
        template = partial(tokenizer.apply_chat_template, tokenize=False, add_generation_prompt=True)
        return tokenizer([template(prompts[n]) for n in index], add_special_tokens=False)["input_ids"]

    functions = [constructed(name) for name in spec.rewards.weights]
    monkeypatch.setattr(training, "reward_functions", lambda *_: functions)
    original = trainer.Trainer._compute_loss
    monkeypatch.setattr(trainer.Trainer, "_compute_loss", lambda *args: sign * original(*args))
    training.train(spec)
    after, _ = load(str(tmp_path / CHECKPOINT))
    changes: dict[float, list[float]] = {0.0: [], 1.0: []}
    mixed = {n for n in range(8) if len({reward for *_, reward, index in answers if index == n}) == 2}
    assert mixed, "some group has both"
    for prompt, ids, reward, index in answers:
        if index in mixed:
            old, new = (sum(token_logprobs(m.eval(), prompt + ids)[-len(ids) :]) for m in (before, after))
            changes[reward].append(sign * (new - old))
    assert np.mean(changes[1.0]) > 0 > np.mean(changes[0.0])


@pytest.mark.slow
def test_thirty_steps_of_sums_raise_the_reward(tmp_path: Path):
    from policy.grpo.training import train

    preset = load_preset("micro-sums")
    easy = {"data_ratio": 1.0, "digits": 1, "carry_ratio": 0.0}
    config = EnvConfig.model_validate({preset.space.key: {"2": easy}})
    instances, _ = sample(preset.task, config, 16, Source(4), frozenset())
    write_dataset(tmp_path / "train.parquet", instances, preset.prompt_style, {}, preset.environment)
    sizes = {"per_device_train_batch_size": 64, "num_generations": 8, "num_train_epochs": 15}
    trl = {**preset.trl, **sizes, "learning_rate": 1e-3, "max_steps": 30, "save_strategy": "no"}
    fields = {"environment": preset.environment, "style": preset.prompt_style, "rewards": preset.rewards}
    train(train_spec(tmp_path, []).model_copy(update={**fields, "trl": trl}))
    rewards = read_train_log(tmp_path / TRAIN_LOG)["reward"]
    assert np.mean(rewards[-6:]) - np.mean(rewards[:6]) > 0.02
