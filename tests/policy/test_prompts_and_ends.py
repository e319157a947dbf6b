"""One prompt and the same ends of an answer in the trainer and in the engine, whatever a checkpoint ships."""

from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from boards import QUESTIONS, draw_instances, optimal
from support.tiny_chat_model import IGNORED, SPECIAL, TEMPLATE, tiny_with, write_chat_model

from envgen.environment import FaultCount
from envgen.errors import ModelError
from envgen.registry import EnvironmentSpec
from policy.chat.contract import Completion, Sampling, ask
from policy.chat.engine import start_engine
from policy.chat.engine_config import EngineConfig
from policy.chat.tokenizer import load_tokenizer, opening, template_end
from policy.chat.transformers_model import TransformersModel, load
from policy.grpo.rewards import RewardWeights, reward_functions
from policy.grpo.train_spec import TrainingSettings

THINKING = {"enable_thinking": False}
REAL = {
    "qwen3": "<|im_end|>",
    "llama3_2": "<|eot_id|>",
    "gemma3": "<end_of_turn>",
    "gptoss": "<|return|>",
    "glm4moe_training": "<|user|>",
}
"""Chat template of a model family, as TRL brings it -> what it writes after an answer."""


def chat_model(folder: Path, template: str, end: str = "<|im_end|>") -> Path:
    """A model with three ends of text, whose tokenizer puts a BOS before each text and has no pad token."""
    from tokenizers.processors import TemplateProcessing
    from transformers import AutoModelForCausalLM, AutoTokenizer

    write_chat_model(folder, template)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"bos_token": "<s>"})
    tokenizer.add_tokens([end], special_tokens=True)
    bos = tokenizer.bos_token_id
    tokenizer._tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", bos)])
    tokenizer.pad_token = None
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    model.resize_token_embeddings(len(tokenizer))
    model.generation_config.eos_token_id = [0]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def trainer_of(model: Any, tokenizer: Any, folder: Path) -> Any:
    from datasets import Dataset

    from policy.grpo.check import grpo_arguments
    from policy.grpo.trainer import Trainer

    arguments = grpo_arguments({"output_dir": str(folder), "report_to": [], "bf16": False})
    rows = Dataset.from_list([{"prompt": [{"role": "user", "content": "?"}]}] * 8)
    given = {"train_dataset": rows, "processing_class": tokenizer, "args": arguments}
    ours = {"resume": None, "settings": TrainingSettings(), "failed": []}
    return Trainer(model, lambda completions, **_: [0.0] * len(completions), **given, **ours)


@pytest.mark.parametrize("name", REAL)
def test_trainer_and_engine_ask_and_end_alike_before_and_after_training(name: str, tmp_path: Path):
    import trl

    template = (Path(trl.__file__).parent / "chat_templates" / f"{name}.jinja").read_text()
    source = str(chat_model(tmp_path / "base", template, REAL[name]))
    engine = TransformersModel(source, dtype="float32", template_kwargs=THINKING)
    trainer = trainer_of(*load(source, "float32", THINKING), tmp_path)
    asked = [question.tokens for question in engine._questions(QUESTIONS, Sampling(max_tokens=1))]
    prompts = [[message.model_dump() for message in conversation] for conversation in QUESTIONS]
    assert trainer._tokenize_prompts(prompts)[0] == asked
    assert all(tokens.count(engine.tokenizer.bos_token_id) <= 1 for tokens in asked)
    ends = {0, SPECIAL.index("<|im_end|>"), engine.tokenizer.convert_tokens_to_ids(REAL[name])}
    assert engine.tokenizer.convert_ids_to_tokens(template_end(engine.tokenizer)) == REAL[name]
    assert set(engine.ends) == set(trainer.generation_config.eos_token_id) == ends
    trainer.save_model(str(tmp_path / "trained"))
    after = TransformersModel(str(tmp_path / "trained"), dtype="float32")
    assert [question.tokens for question in after._questions(QUESTIONS, Sampling(max_tokens=1))] == asked
    assert set(after.ends) == ends


AGENTS = "Agent 0: (0,0) to (1,1)\nAgent 1: (1,0) to (0,2)"
BOARDS = [ask(f"Solve 3x3.\nHoles: {holes}\n{AGENTS}") for holes in ("none", "(2,2)")]


def answers_of(source: str) -> list[list[Completion]]:
    """Greedy answers, and sampled ones."""
    greedy, model = Sampling(max_tokens=40), TransformersModel(source)
    return [model.complete(BOARDS, greedy.model_copy(update={"temperature": t})) for t in (0.0, 1.0)]


@pytest.fixture(scope="module")
def answers() -> list[list[Completion]]:
    return answers_of("tiny")


@pytest.mark.parametrize(
    "files",
    [
        {"generation_config": {"eos_token_id": [2]}},
        {"generation_config": {"eos_token_id": None}},
        {"generation_config": {**IGNORED, "repetition_penalty": 5.0, "do_sample": True}},
        {"tokenizer_config": {"eos_token": "<|pad|>"}, "generation_config": {"eos_token_id": 0}},
        {"tokenizer_config": {"eos_token": None, "pad_token": None}},
    ],
)
def test_a_policy_answers_the_same_whatever_its_files_say_of_ends_and_sampling(files, tmp_path, answers):
    source = tiny_with(tmp_path / "copy", **files)
    assert answers_of(source) == answers
    assert {answer.finish_reason for answer in answers[0]} == {"stop"}
    load(source)[0].save_pretrained(tmp_path / "saved")


def test_a_tokenizer_without_any_end_is_refused(tmp_path: Path):
    source = tiny_with(tmp_path / "copy", tokenizer_config={"eos_token": None})
    (tmp_path / "copy" / "chat_template.jinja").write_text("{{ messages[0]['content'] }}")
    with pytest.raises(ModelError, match="its tokenizer has no eos_token; add it to"):
        load(source)


DATED = "{% macro day() %}{{ strftime_now('%A %d %b %Y, %-d.%-m.%y') }}{% endmacro %}{{ day() }}" + TEMPLATE


def test_the_date_in_a_chat_template_does_not_depend_on_the_day(tmp_path, monkeypatch):
    source = str(write_chat_model(tmp_path / "base", DATED))

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime(2031, 3, 4)

    def prompt() -> str:
        model = TransformersModel(source)
        [question] = model._questions(QUESTIONS[:1], Sampling(max_tokens=1))
        return model.tokenizer.decode(question.tokens)

    today = prompt()
    monkeypatch.setattr("transformers.utils.chat_template_utils.datetime", Clock)
    assert prompt() == today
    assert today.startswith("Friday 26 Jul 2024, 26.7.24<|im_start|>")


def test_thinking_that_the_template_opens_is_read_as_thinking_from_the_first_token(tmp_path: Path):
    source = str(write_chat_model(tmp_path, TEMPLATE + "{{ '<think>\n' if add_generation_prompt }}"))
    model, instances = TransformersModel(source, dtype="float32"), draw_instances(1)
    [answer] = model.complete(QUESTIONS[:1], Sampling(max_tokens=4))
    assert answer.text.startswith("<think>")
    assert opening(load_tokenizer("tiny")) == ""
    environment = EnvironmentSpec().load()
    terms = RewardWeights(), FaultCount(environment.space), instances, None, opening(model.tokenizer)
    valid = reward_functions(environment, *terms)[1]
    draft, plan = optimal(instances[0]), f"So.</think>{optimal(instances[0])}"
    assert valid(completions=[draft, plan], index=[0, 0]) == [0, 1]


@pytest.mark.slow
def test_a_child_asks_with_the_variables_of_the_chat_template(tmp_path: Path):
    template = TEMPLATE + "{{ 'not ' if not enable_thinking|default(true) }}"
    source, greedy = str(write_chat_model(tmp_path / "base", template)), Sampling(max_tokens=12)
    engine = start_engine(source, EngineConfig(dtype="float32"), tmp_path / "engine.log", THINKING)
    with closing(engine):
        answers = engine.complete(QUESTIONS, greedy)
    here = TransformersModel(source, dtype="float32", template_kwargs=THINKING)
    assert answers == here.complete(QUESTIONS, greedy)
    assert answers != TransformersModel(source, dtype="float32").complete(QUESTIONS, greedy)
