from pathlib import Path
from typing import Any

import pytest

from envgen.errors import ConfigError
from infra.config.preset import load_preset
from policy.checkpoints import TINY_DIRECTORY
from policy.grpo.batches import Batches

HERE = {"report_to": [], "use_cpu": True, "bf16": False}


def trl(per_device: int, **more: int) -> dict[str, Any]:
    return {"per_device_train_batch_size": per_device, **more}


@pytest.mark.parametrize(
    ("options", "processes", "steps"),
    [
        (trl(128, num_generations=8), 1, 74),
        (trl(2, gradient_accumulation_steps=64), 1, 74),
        (trl(4, gradient_accumulation_steps=4), 8, 74),
        (trl(8, generation_batch_size=128, gradient_accumulation_steps=4), 1, 296),
        (trl(8, steps_per_generation=16, gradient_accumulation_steps=16, num_iterations=2), 1, 148),
    ],
)
def test_a_stage_is_cut_into_generations_and_steps(options: dict[str, Any], processes: int, steps: int):
    batches = Batches.of(options, processes)
    assert (batches.answers, batches.prompts) == (128, 16)
    assert (batches.optimizer_steps(600, 2), batches.prompts_of_epoch(600)) == (steps, 592)


@pytest.mark.parametrize(
    "options",
    [
        trl(8, gradient_accumulation_steps=2),
        trl(4, gradient_accumulation_steps=3, steps_per_generation=4),
        trl(8, generation_batch_size=32, gradient_accumulation_steps=3, num_iterations=2),
    ],
)
def test_steps_are_those_of_the_installed_trainer(options: dict[str, Any], tmp_path: Path):
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from policy.chat.transformers_model import load

    model, tokenizer = load(str(TINY_DIRECTORY), "float32")
    options = {**options, "num_generations": 4}
    given = GRPOConfig(output_dir=str(tmp_path), num_train_epochs=1.5, **HERE, **options)
    rows = Dataset.from_list([{"prompt": [{"role": "user", "content": str(index)}]} for index in range(37)])
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=given,
        train_dataset=rows,
        processing_class=tokenizer,
    )
    *_, expected = trainer.set_initial_training_values(given, trainer.get_train_dataloader())
    assert Batches.of(options, 1).optimizer_steps(37, 1.5) == expected


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (trl(8, generation_batch_size=4), "4 is no multiple of the 8 answers that are trained on at a time"),
        (trl(8, generation_batch_size=36, num_generations=4), "36 is no multiple of the 8 answers"),
        (
            trl(8, generation_batch_size=32, steps_per_generation=4),
            "32 is given together with trl.steps_per_g",
        ),
        (trl(8, num_generations=7), "num_generations: 7 does not divide the 8 answers"),
    ],
)
def test_what_the_installed_trainer_refuses_is_refused_when_a_preset_is_read(
    options: dict[str, Any], said: str, tmp_path: Path
):
    from trl import GRPOConfig

    with pytest.raises(ValueError, match=r"generation_batch_size|num_generations"):
        GRPOConfig(output_dir=str(tmp_path), **HERE, **options)
    options = {"gradient_accumulation_steps": 1, **options}
    with pytest.raises(ConfigError, match=said):
        load_preset("micro", {f"trl.{name}": value for name, value in options.items()})


@pytest.mark.parametrize("value", ["many", 0, 2.5, True])
def test_a_batch_that_is_no_whole_number_is_refused(value: object):
    with pytest.raises(
        ConfigError, match=r"per_device_train_batch_size: .* is no(ne of int| whole number of at least 1)"
    ):
        load_preset("micro", {"trl.per_device_train_batch_size": value})
