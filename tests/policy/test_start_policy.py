"""The shipped start policy is what its model card says."""

import json

import numpy as np
import pytest

from engineer.answer import AnswerError, parse_answer
from engineer.lessons import random_context, with_waits
from engineer.prompt import design_prompt
from engineer.teacher import teach
from envgen.prompts import PromptStyle
from envgen.seeds import generator
from infra.preset import load_preset
from infra.study.spec import load_study
from policy.chat import Sampling, ask
from policy.checkpoints import SHIPPED
from policy.evaluation import evaluate
from policy.rollouts import breakdown_of
from policy.transformers_model import TransformersModel
from tasks.data import validation_instances


@pytest.fixture(scope="module")
def start() -> TransformersModel:
    return TransformersModel("tiny", batch_size=128, dtype="float32")


def test_it_solves_about_a_third_of_the_validation_set_and_more_of_small_maps(start):
    preset = load_preset("tiny")
    counts = breakdown_of(evaluate(start, validation_instances(preset), PromptStyle.COMPACT, Sampling(max_tokens=preset.max_answer_tokens)))
    assert 0.2 < counts.overall.valid_rate.value < 0.5
    assert counts.sizes[3].valid_rate.value > counts.sizes[6].valid_rate.value


def test_it_answers_design_questions_in_readable_json_without_help(start):
    rng = generator(7, "unseen designs")
    contexts = [random_context(rng, load_preset("tiny").space) for _ in range(40)]
    readable = 0
    for completion in start.complete([ask(design_prompt("V6", context, "compact").text) for context in contexts], Sampling(max_tokens=160)):
        try:
            parse_answer(completion.text)
            readable += 1
        except AnswerError:
            continue
    assert readable >= 36


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_it_is_small_and_has_a_model_card(name: str):
    directory = SHIPPED[name]
    assert (directory / "README.md").is_file()
    assert (directory / "model.safetensors").stat().st_size < 10_000_000
    assert json.loads((directory / "config.json").read_text())["architectures"] == ["Qwen3ForCausalLM"]


def test_the_wide_one_solves_some_boards_of_three_agents_and_of_larger_maps():
    wide = TransformersModel("tiny-wide", batch_size=128, dtype="float32")
    drawn = load_study("small").test.model_copy(update={"instances": 6}).draw()
    rollouts = evaluate(wide, drawn, PromptStyle.COMPACT, Sampling(max_tokens=96))
    for agents in (2, 3):
        rate = np.mean([rollout.verdict.valid for rollout in rollouts if rollout.instance.problem.num_agents == agents])
        assert 0.1 < rate < 0.4


def test_the_one_of_waits_asks_for_waits_where_the_rule_does():
    model, rng = TransformersModel("tiny-waits", batch_size=32, dtype="float32"), generator(9, "unseen waits")
    contexts = [with_waits(random_context(rng, load_preset("tiny-wide").space), rng) for _ in range(24)]
    answers = model.complete([ask(design_prompt("V6W", context, "compact").text) for context in contexts], Sampling(max_tokens=160))
    off, moved = [], []
    for context, completion in zip(contexts, answers, strict=True):
        rule, config = teach(context)[0], parse_answer(completion.text)[1]["sizes"]
        off += [abs(config[str(size)]["wait_ratio"] - knobs.wait_ratio) for size, knobs in rule.sizes.items()]
        moved += [abs(context.current.config.sizes[size].wait_ratio - knobs.wait_ratio) for size, knobs in rule.sizes.items()]
    assert np.mean(off) < np.mean(moved) / 3, "keeping the config would be as good"
