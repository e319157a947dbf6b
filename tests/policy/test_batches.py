from pathlib import Path
from typing import Any

import pytest

from envgen.errors import ConfigError
from policy.batches import Batches
from policy.checkpoints import TINY_DIRECTORY


@pytest.mark.parametrize(
    ("trl", "processes", "answers", "prompts", "steps"),
    [
        ({"per_device_train_batch_size": 128, "num_generations": 8}, 1, 128, 16, 74),
        ({"per_device_train_batch_size": 2, "gradient_accumulation_steps": 64}, 1, 128, 16, 74),
        ({"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4}, 8, 128, 16, 74),
        ({"per_device_train_batch_size": 8, "generation_batch_size": 128, "gradient_accumulation_steps": 4}, 1, 128, 16, 296),
        ({"per_device_train_batch_size": 8, "steps_per_generation": 16, "gradient_accumulation_steps": 16, "num_iterations": 2}, 1, 128, 16, 148),
    ],
)
def test_a_stage_is_cut_into_generations_and_steps(trl: dict[str, Any], processes: int, answers: int, prompts: int, steps: int):
    batches = Batches.of(trl, processes)
    assert (batches.answers, batches.prompts, batches.optimizer_steps(600, 2), batches.prompts_of_epoch(600)) == (answers, prompts, steps, 592)


@pytest.mark.parametrize(
    "trl",
    [
        {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2},
        {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 3, "steps_per_generation": 4},
        {"per_device_train_batch_size": 8, "generation_batch_size": 32, "gradient_accumulation_steps": 3, "num_iterations": 2},
    ],
)
def test_steps_are_those_of_the_installed_trainer(trl: dict[str, Any], tmp_path: Path):
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from policy.transformers_model import load

    model, tokenizer = load(str(TINY_DIRECTORY), "float32")
    given = GRPOConfig(output_dir=str(tmp_path), num_train_epochs=1.5, report_to=[], use_cpu=True, bf16=False, num_generations=4, **trl)
    rows = Dataset.from_list([{"prompt": [{"role": "user", "content": str(index)}]} for index in range(37)])
    trainer = GRPOTrainer(
        model=model, reward_funcs=lambda completions, **_: [0.0] * len(completions), args=given, train_dataset=rows, processing_class=tokenizer
    )
    *_, expected = trainer.set_initial_training_values(given, trainer.get_train_dataloader())
    assert Batches.of(trl | {"num_generations": 4}, 1).optimizer_steps(37, 1.5) == expected


def test_a_batch_that_is_no_multiple_of_a_pass_is_refused():
    with pytest.raises(ConfigError, match="does not divide the 0 answers"):
        Batches.of({"per_device_train_batch_size": 8, "generation_batch_size": 4}, 1)
