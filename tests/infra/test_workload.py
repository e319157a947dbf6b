import json
import math
import re

import pytest
from support.presets import EVERY, OF_PUZZLES, needs_reasoning_gym

from envgen.errors import ConfigError
from envgen.mapf.problem import Agent, Problem
from envgen.mapf.prompts import PromptStyle, prompt
from infra.config.preset import PRESETS, load_preset
from infra.config.workload import Throughput, Work, workload
from policy.checkpoints import TINY_DIRECTORY
from policy.grpo.launch import Sharding
from policy.grpo.memory import estimate_memory
from policy.grpo.model_size import CONFIGS, count, known_positions

CARDS = {
    "qwen3-0.6b": 22.4,
    "qwen3-1.7b": 44.5,
    "qwen3-4b": 79,
    "qwen3-4b-lora": 22.4,
    "qwen3-4b-8gpu": 79,
    "puzzles": 22.4,
}
"""Preset of a Qwen3 -> GiB that the smallest cards sold as 24, 48 and 80 GB have."""
QWEN = [pytest.param(name, marks=needs_reasoning_gym) if name in OF_PUZZLES else name for name in CARDS]


@pytest.mark.parametrize("name", EVERY)
def test_steps_that_a_preset_states_are_those_of_a_stage(name: str):
    stated = re.search(
        r"# (\d+) answers to (\d+) prompts: (\d+) optimizer steps a stage\.",
        (PRESETS / f"{name}.yaml").read_text(),
    )
    assert stated
    preset = load_preset(name)
    work = workload(preset)
    answers, prompts, steps = map(int, stated.groups())
    assert work.optimizer_steps == steps
    assert answers == prompts * preset.trl["num_generations"]
    assert work.training.answers == steps * answers


@pytest.mark.parametrize("name", EVERY)
def test_the_installed_trainer_takes_the_options_of_a_preset(
    name: str, tmp_path, monkeypatch: pytest.MonkeyPatch
):
    from peft import LoraConfig
    from trl import GRPOConfig

    preset = load_preset(name)
    processes = Sharding.of(preset.training).processes
    monkeypatch.setattr(GRPOConfig, "world_size", property(lambda _: processes))
    options = GRPOConfig(
        output_dir=str(tmp_path), use_cpu=True, report_to=[], num_train_epochs=preset.epochs, **preset.trl
    )
    assert (
        options.generation_batch_size == workload(preset).training.answers // workload(preset).optimizer_steps
    )
    assert (
        options.steps_per_generation == options.gradient_accumulation_steps
    )  # no answer is older than a step
    if preset.training.lora is not None:
        assert LoraConfig(**preset.training.lora, task_type="CAUSAL_LM").r == 32
    assert preset.trl["mask_truncated_completions"] is (name in CARDS)


@pytest.mark.parametrize("name", QWEN)
def test_a_preset_fits_its_card_by_estimate(name: str):
    preset = load_preset(name)
    longest = max(preset.max_answer_tokens, preset.engineer.max_tokens)
    size = count("", json.loads(CONFIGS.read_text())[preset.model], preset.training.lora)
    asked = preset.prompt_tokens()
    positions = known_positions(preset.model)
    estimate = estimate_memory(size, preset.training, preset.trl, preset.engine, asked, longest, CARDS[name])
    assert CARDS[name] / 2 < estimate.peak.total < CARDS[name] - 1, "there is room for what is not counted"
    assert all(moment.sequences is None or moment.sequences > 4 for moment in estimate.moments)
    assert preset.engine.max_model_len is not None
    assert positions is not None
    assert asked + longest <= preset.engine.max_model_len <= positions
    assert preset.engine.replicas == Sharding.of(preset.training).processes
    assert asked + preset.trl["max_completion_length"] <= preset.trl["vllm_max_model_length"] <= positions


@pytest.mark.parametrize("name", ["qwen3-4b", "qwen3-4b-lora", "qwen3-4b-8gpu"])
def test_what_the_paper_states_is_as_the_paper_states_it(name: str):
    preset = load_preset(name)
    assert (
        preset.model,
        preset.stages,
        preset.instances,
        preset.family.options["agents"],
        preset.epochs,
    ) == ("Qwen/Qwen3-4B", 3, 4000, 2, 2)
    assert preset.space.names == tuple(map(str, range(3, 11)))
    head = (PRESETS / f"{name}.yaml").read_text().partition("name:")[0]
    assert "our choice" in head
    assert "Not run with the real weights." in head


def test_work_is_counted_from_the_preset():
    preset = load_preset("qwen3-4b")
    work, prompt_length = workload(preset, 1000), preset.prompt_tokens()
    assert work.training == Work(
        answers=64_000,
        prompt_tokens=64_000 * prompt_length,
        generated=64_000_000,
        trained=64_000 * (prompt_length + 1000),
    )
    assert (work.evaluation.answers, work.evaluation.generated, work.evaluation.trained) == (576, 576_000, 0)
    assert work.engineer.answers == 1
    assert work.total.generated == 3 * work.stage.generated + work.evaluation.generated
    assert workload(preset).answer_length == 4096


def test_an_engineer_that_is_no_model_is_asked_nothing():
    assert workload(load_preset("qwen3-4b", {"engineer.name": "random"})).engineer.answers == 0


@pytest.mark.parametrize("length", [0, 8193])
def test_a_mean_beyond_the_limit_is_refused(length: int):
    with pytest.raises(
        ConfigError, match=rf"--answer-length: {length} is not between 1 and trl.max_completion_length, 8192"
    ):
        workload(load_preset("qwen3-4b"), length)


def test_a_stage_without_a_single_step_is_refused():
    with pytest.raises(ConfigError, match="instances: 100 are fewer than the 128 prompts answered together"):
        workload(load_preset("tiny", {"instances": 100, "trl.per_device_train_batch_size": 1024}))


def test_hours_are_those_of_a_stated_rate():
    work = Work(answers=1, prompt_tokens=5, generated=7_200, trained=3_600)
    assert Throughput(generated=1, trained=2).hours(work) == 2.5
    assert math.isclose(Throughput(generated=1, trained=2).hours(work.times(2) + work), 7.5)


def test_a_checkpoint_that_is_here_counts_its_own_tokens():
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(TINY_DIRECTORY)
    board = Problem(
        size=6, holes=(), agents=(Agent(start=(5, 5), goal=(5, 4)), Agent(start=(5, 3), goal=(5, 2)))
    )
    asked = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt(board, PromptStyle.COMPACT)}],
        add_generation_prompt=True,
        return_dict=False,
    )
    assert load_preset("tiny").prompt_tokens() == pytest.approx(len(asked), abs=10)
