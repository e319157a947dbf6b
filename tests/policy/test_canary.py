"""The stale-weights canary and the advice after running out of memory."""

from pathlib import Path

import numpy as np
import pytest
import torch

from envgen.errors import ModelError
from policy.grpo.canary import Canary, check_weights, refuse_stale
from policy.grpo.out_of_memory import is_out_of_memory, memory_advice
from policy.grpo.train_spec import TrainingSettings, deciding_options, last_checkpoint

SHAPE = (8, 30)
RANDOM = np.random.default_rng(7)
BEFORE = -RANDOM.exponential(1, SHAPE)
CHANGE = RANDOM.normal(0, 1, SHAPE)


def noisy(scores: np.ndarray, noise: float, seed: int) -> list[list[float]]:
    return (scores + np.random.default_rng(seed).normal(0, noise, SHAPE)).tolist()


def canary(change: float, dtype: str = "bfloat16", noise: float = 0.0, known: bool = True) -> Canary:
    """Eight answers of 30 tokens whose log-probabilities training moved by about `change` nats, seen through
    the trainer's rounding."""
    before, after = noisy(BEFORE, noise, 1), noisy(BEFORE + change * CHANGE, noise, 2)
    return Canary.model_validate(
        {
            "sequences": [[1] * 40] * 8,
            "answers": [30] * 8,
            "dtype": dtype,
            "before": before if known else None,
            "after": after,
        }
    )


def engine(scores: np.ndarray, noise: float = 0.0, seed: int = 3):
    """An engine with these scores of the answers and rounding of its own; the nine values before are the
    question's."""
    return lambda sequences: [[-9.0] * 9 + row for row in noisy(scores, noise, seed)]


def test_an_engine_with_the_trained_weights_is_told_from_one_with_those_before():
    moved = canary(0.2, noise=0.02)
    fresh = check_weights(moved, engine(BEFORE + 0.2 * CHANGE, 0.02), "bfloat16")
    stale = check_weights(moved, engine(BEFORE, 0.02), "bfloat16")
    assert (fresh.verdict, stale.verdict) == ("same", "other")
    refuse_stale(fresh, "model")
    refusal = r"model: the engine does not answer with the trained weights: .* training.canary=warn"
    with pytest.raises(ModelError, match=refusal):
        refuse_stale(stale, "model")


@pytest.mark.parametrize("change", [0.0, 0.005, 0.01, 0.02, 0.03, 0.06, 0.1, 0.3])
@pytest.mark.parametrize("kept", [0.0, 0.5, 1.0])
def test_rounding_alone_is_never_taken_for_other_weights(change: float, kept: float):
    """Neither in trainer and engine, nor where it takes a part of a small change out of the engine's
    weights."""
    kept = 1.0 if change > 0.05 else kept
    for seed in range(10, 50):
        there = engine(BEFORE + kept * change * CHANGE, 0.02, seed)
        check = check_weights(canary(change, noise=0.02), there, "bfloat16")
        assert check.verdict in ("same", "too small a change to tell")


def test_a_trainer_in_bfloat16_is_not_held_to_the_precision_of_an_engine_in_float32():
    def verdict(trained: Canary, scores: np.ndarray) -> str:
        return check_weights(trained, engine(scores), "float32").verdict

    assert verdict(canary(0.0, noise=0.02), BEFORE) == "too small a change to tell"
    assert verdict(canary(0.01, "float32"), BEFORE) == "other"
    assert verdict(canary(0.01, "float32"), BEFORE + 0.01 * CHANGE) == "same"


def test_without_the_scores_before_only_altogether_other_weights_are_refused():
    unknown = canary(0.2, known=False)
    assert check_weights(unknown, engine(BEFORE), "bfloat16").verdict == "unknown what changed"
    assert check_weights(unknown, engine(BEFORE - 2), "bfloat16").verdict == "other"


def test_scores_of_a_batch_are_those_of_each_text_alone():
    from policy.chat.transformers_model import load, token_logprobs
    from policy.checkpoints import resolve_model

    model, tokenizer = load(resolve_model("tiny"), "float32")
    plans = ["Agent 0: (0,1) (0,2)", "Agent 0: (0,1) (0,2) (1,2)\nAgent 1: (2,2)", "(0,1) (0,2)"]
    texts = tokenizer(plans, add_special_tokens=False)["input_ids"]
    together = token_logprobs(model.eval(), texts, "cpu")
    for text, scores in zip(texts, together, strict=True):
        with torch.no_grad():
            distribution = torch.log_softmax(model(torch.tensor([text])).logits[0], dim=-1)
        expected = [distribution[at, token].item() for at, token in enumerate(text[1:])]
        assert scores == pytest.approx(expected, abs=1e-4)


def test_memory_that_runs_out_is_recognised_whoever_says_so():
    with pytest.raises(RuntimeError) as allocation:
        torch.empty(2**45, dtype=torch.uint8)
    assert is_out_of_memory(allocation.value)
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"))
    assert is_out_of_memory(ValueError("No available memory for the cache blocks. Try increasing"))
    assert not is_out_of_memory(ValueError("generation_batch_size must be divisible by num_generations"))


def trl(batch: int, parts: int, **more: object) -> dict[str, object]:
    return {"per_device_train_batch_size": batch, "gradient_accumulation_steps": parts, **more}


VLLM = {"use_vllm": True, "vllm_gpu_memory_utilization": 0.4}


@pytest.mark.parametrize(
    ("options", "knobs"),
    [
        (
            trl(8, 4, gradient_checkpointing=False, **VLLM),
            [
                "per_device_train_batch_size=4 --set trl.gradient_accumulation_steps=8",
                "trl.vllm_gpu_memory_utilization=0.30 --set trl.vllm_enable_sleep_mode=true",
                "trl.gradient_checkpointing=true",
            ],
        ),
        (
            trl(1, 64, gradient_checkpointing=True),
            ["training.launch=fsdp2", "trl.torch_empty_cache_steps=1", "expandable_segments"],
        ),
        (
            trl(5, 2),
            [
                "per_device_train_batch_size=1 --set trl.gradient_accumulation_steps=10",
                "training.launch=fsdp2",
                "trl.torch_empty_cache_steps=1",
            ],
        ),
    ],
)
def test_the_advice_names_three_knobs_with_values_and_where_training_goes_on(
    options: dict, knobs: list[str], tmp_path
):
    (tmp_path / "checkpoint-40").mkdir()
    (tmp_path / "checkpoint-40" / "trainer_state.json").write_text('{"global_step": 40}')
    said = advice(options, resume=last_checkpoint(tmp_path))
    for number, knob in enumerate(knobs, start=1):
        assert f"({number}) " in said
        assert knob in said
    assert "(4)" not in said
    assert said.endswith("The same command with them goes on from checkpoint-40")
    assert "starts this stage's training anew" in advice(options)


def advice(options: dict, reason: str = "CUDA out of memory", resume: Path | None = None) -> str:
    return memory_advice(reason, options, TrainingSettings(), resume)


def test_a_cache_that_got_no_memory_is_given_more_not_less():
    said = advice(VLLM, "No available memory for the cache blocks")
    assert "(1) --set trl.vllm_gpu_memory_utilization=0.50" in said
    assert "utilization=0.30" not in said


def test_answers_that_are_generated_together_stay_together():
    def decides(*options: int, together: int | None = None) -> dict:
        passes = {} if together is None else {"steps_per_generation": together}
        return deciding_options(trl(*options, num_generations=8, **passes), TrainingSettings(), 1)

    smaller = "batch_size=2 --set trl.gradient_accumulation_steps=4 --set trl.steps_per_generation=8"
    assert smaller in advice(trl(4, 2, steps_per_generation=4, num_generations=8))
    assert decides(2, 4, together=8) == decides(4, 2, together=4)
    assert decides(2, 4, together=4) != decides(4, 2, together=4)
