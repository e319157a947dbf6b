"""The stale-weights canary and the advice after running out of memory."""

import numpy as np
import pytest
import torch

from envgen.errors import ModelError
from policy.canary import Canary, check_weights, refuse_stale
from policy.out_of_memory import is_out_of_memory, memory_advice
from policy.train_spec import TrainingSettings, last_checkpoint

GENERATOR = np.random.default_rng(7)
BEFORE = (-GENERATOR.exponential(1, (8, 30))).tolist()
CHANGE = GENERATOR.normal(0, 1, (8, 30))


def canary(change: float, known: bool = True) -> Canary:
    """A canary of eight answers of 30 tokens whose log-probabilities training moved by about `change` nats."""
    after = (np.array(BEFORE) + change * CHANGE).tolist()
    return Canary(sequences=[[1] * 40] * 8, answers=[30] * 8, before=BEFORE if known else None, after=after)


def engine(scores: list[list[float]], noise: float):
    """An engine with these scores of the answers and arithmetic of its own; the ten tokens before are the question's."""
    noisy = np.array(scores) + np.random.default_rng(1).normal(0, noise, (8, 30))
    return lambda sequences: [[-9.0] * 9 + row for row in noisy.tolist()]


def test_an_engine_with_the_trained_weights_is_told_from_one_with_those_before_even_where_rounding_hides_neither():
    moved = canary(0.02)
    fresh = check_weights(moved, engine(moved.after, noise=0.03), "bfloat16")
    stale = check_weights(moved, engine(BEFORE, noise=0.03), "bfloat16")
    assert (fresh.verdict, stale.verdict) == ("same", "other")
    assert fresh.off < 0.1
    assert stale.off < 0.1, "the difference alone would not have shown it"
    refuse_stale(fresh, "model")
    with pytest.raises(ModelError, match=r"model: the engine does not answer with the trained weights: .* shows -?\d+ % of what training changed"):
        refuse_stale(stale, "model")


def test_a_change_below_the_engines_rounding_tells_nothing():
    still = canary(0.001)
    assert check_weights(still, engine(still.after, noise=0.03), "bfloat16").verdict == "too small a change to tell"
    assert check_weights(still, engine(BEFORE, noise=0.03), "bfloat16").verdict == "too small a change to tell"
    nothing = canary(0.0)
    assert check_weights(nothing, engine(BEFORE, noise=0.0), "float32").verdict == "too small a change to tell"


def test_an_engine_with_altogether_other_weights_is_refused_though_nothing_is_known_of_those_before():
    unknown = canary(0.02, known=False)
    other = (np.array(unknown.after) - 0.5).tolist()
    assert check_weights(unknown, engine(other, noise=0.03), "bfloat16").verdict == "other"
    assert check_weights(unknown, engine(unknown.after, noise=0.03), "bfloat16").verdict == "too small a change to tell"


def test_scores_of_a_batch_are_those_of_each_text_alone():
    from policy.checkpoints import resolve_model
    from policy.scoring import token_logprobs
    from policy.transformers_model import load

    model, tokenizer = load(resolve_model("tiny"), "float32")
    texts = [
        tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("Agent 0: (0,1) (0,2)", "Agent 0: (0,1) (0,2) (1,2)\nAgent 1: (2,2)", "(0,1) (0,2)")
    ]
    together = token_logprobs(model.eval(), texts, "cpu")
    for text, scores in zip(texts, together, strict=True):
        with torch.no_grad():
            distribution = torch.log_softmax(model(torch.tensor([text])).logits[0], dim=-1)
        assert scores == pytest.approx([distribution[at, token].item() for at, token in enumerate(text[1:])], abs=1e-4)


def test_memory_that_runs_out_is_recognised_whoever_says_so():
    with pytest.raises(RuntimeError) as allocation:
        torch.empty(2**45, dtype=torch.uint8)
    assert is_out_of_memory(allocation.value)
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"))
    assert is_out_of_memory(ValueError("No available memory for the cache blocks. Try increasing gpu_memory_utilization"))
    assert not is_out_of_memory(ValueError("generation_batch_size must be divisible by num_generations"))


@pytest.mark.parametrize(
    ("options", "knobs"),
    [
        (
            {
                "per_device_train_batch_size": 8,
                "gradient_accumulation_steps": 4,
                "use_vllm": True,
                "vllm_gpu_memory_utilization": 0.4,
                "gradient_checkpointing": False,
            },
            [
                "per_device_train_batch_size=4 --set trl.gradient_accumulation_steps=8",
                "trl.vllm_gpu_memory_utilization=0.30 --set trl.vllm_enable_sleep_mode=true",
                "trl.gradient_checkpointing=true",
            ],
        ),
        (
            {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 64, "gradient_checkpointing": True},
            ["training.launch=fsdp2", "trl.use_liger_kernel=true", "trl.torch_empty_cache_steps=1"],
        ),
        (
            {"per_device_train_batch_size": 5, "gradient_accumulation_steps": 2},
            ["per_device_train_batch_size=1 --set trl.gradient_accumulation_steps=10", "training.launch=fsdp2", "trl.use_liger_kernel=true"],
        ),
    ],
)
def test_the_advice_names_three_knobs_with_values_and_where_training_goes_on(options: dict, knobs: list[str], tmp_path):
    (tmp_path / "checkpoint-40").mkdir()
    (tmp_path / "checkpoint-40" / "trainer_state.json").write_text('{"global_step": 40}')
    said = memory_advice("CUDA out of memory", options, TrainingSettings(), last_checkpoint(tmp_path))
    assert all(f"({number}) --set " in said for number in (1, 2, 3))
    assert "(4)" not in said
    for knob in knobs:
        assert knob in said
    assert said.endswith("The same command with them goes on from checkpoint-40")
    assert "starts this stage's training anew" in memory_advice("CUDA out of memory", options, TrainingSettings(), None)
