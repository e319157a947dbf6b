"""Training learns what the reward says: in one step, and in thirty."""

from collections.abc import Callable
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
from policy.checkpoints import resolve_model
from policy.grpo.saving import token_logprobs
from policy.grpo.train_log import read_train_log
from policy.grpo.train_spec import CHECKPOINT, TRAIN_LOG, TrainSpec

pytestmark = pytest.mark.timeout(600)


def train(spec: TrainSpec, sign: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Train a stage; with the sign -1, uphill on the loss."""
    from policy.grpo import trainer, training

    original = trainer.Trainer._compute_loss
    monkeypatch.setattr(trainer.Trainer, "_compute_loss", lambda *args: sign * original(*args))
    training.train(spec)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_step_makes_rewarded_answers_likelier_and_the_others_less_likely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sign: int
):
    from policy.chat.transformers_model import load
    from policy.grpo import training

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
        texts = [
            tokenizer.apply_chat_template(prompts[n], tokenize=False, add_generation_prompt=True)
            for n in index
        ]
        return tokenizer(texts, add_special_tokens=False)["input_ids"]

    monkeypatch.setattr(
        training, "reward_functions", lambda *_: [constructed(n) for n in spec.rewards.weights]
    )
    train(spec, sign, monkeypatch)
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
@pytest.mark.parametrize("sign", [1, -1])
def test_thirty_steps_of_sums_raise_the_reward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sign: int):
    preset = load_preset("micro-sums")
    easy = {"data_ratio": 1.0, "digits": 1, "carry_ratio": 0.0}
    config = EnvConfig.model_validate({preset.space.key: {"2": easy}})
    instances, _ = sample(preset.task, config, 16, Source(4), frozenset())
    write_dataset(tmp_path / "train.parquet", instances, preset.prompt_style, {}, preset.environment)
    spec = TrainSpec(
        parent=resolve_model(preset.model),
        data=tmp_path / "train.parquet",
        output=tmp_path,
        work=tmp_path / "work",
        environment=preset.environment,
        style=preset.prompt_style,
        rewards=preset.rewards,
        trl={
            **preset.trl,
            "learning_rate": 1e-3,
            "per_device_train_batch_size": 64,
            "num_generations": 8,
            "num_train_epochs": 15,
            "max_steps": 30,
            "save_strategy": "no",
        },
        seed=3,
    )
    train(spec, sign, monkeypatch)
    rewards = read_train_log(tmp_path / TRAIN_LOG)["reward"]
    first, last = np.mean(rewards[:6]), np.mean(rewards[-6:])
    assert sign * (last - first) > 0.02
