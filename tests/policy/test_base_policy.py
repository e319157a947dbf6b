"""The shipped base policy is what its model card says."""

import json

import pytest

from engineer.answer import AnswerError, parse_answer
from engineer.lessons import random_context
from engineer.prompt import design_prompt
from envgen.prompts import PromptStyle
from envgen.seeds import generator
from infra.preset import load_preset
from policy.chat import Sampling, ask
from policy.checkpoints import SHIPPED
from policy.evaluation import evaluate
from policy.rollouts import breakdown_of
from policy.transformers_model import TransformersModel
from tasks.data import validation_instances


@pytest.fixture(scope="module")
def base() -> TransformersModel:
    return TransformersModel("tiny", batch_size=128, dtype="float32")


def test_it_solves_about_a_third_of_the_validation_set_and_more_of_small_maps(base):
    preset = load_preset("tiny")
    counts = breakdown_of(evaluate(base, validation_instances(preset), PromptStyle.COMPACT, Sampling(max_tokens=preset.max_answer_tokens)))
    assert 0.2 < counts.overall.valid_rate.value < 0.5
    assert counts.sizes[3].valid_rate.value > counts.sizes[6].valid_rate.value


def test_it_answers_design_questions_in_readable_json_without_help(base):
    rng = generator(7, "unseen designs")
    contexts = [random_context(rng, load_preset("tiny").space) for _ in range(40)]
    readable = 0
    for completion in base.complete([ask(design_prompt("V6", context, "compact").text) for context in contexts], Sampling(max_tokens=160)):
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
