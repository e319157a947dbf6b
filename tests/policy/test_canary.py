"""The check of a merged adapter, and the advice after running out of memory."""

from pathlib import Path

import pytest
import torch

from policy.child import is_out_of_memory
from policy.grpo.launch import memory_advice


def test_a_merged_adapter_that_scores_otherwise_than_the_trainer_is_told(capsys: pytest.CaptureFixture[str]):
    from policy.chat.transformers_model import load
    from policy.grpo.saving import check_merged, token_logprobs

    model, _ = load("tiny", "float32")
    texts = [[5, 9, 2, 7, 30, 31], [40, 41, 42]]
    for ids in texts:
        with torch.no_grad():
            expected = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        chosen = [expected[place, token].item() for place, token in enumerate(ids[1:])]
        assert token_logprobs(model, ids) == pytest.approx(chosen, abs=1e-5)
    scored = [(ids, token_logprobs(model, ids)[-2:]) for ids in texts]
    check_merged(model, scored)
    assert capsys.readouterr().out.endswith("differ by 0 nats a token\n")
    check_merged(model, [(ids, [logprob - 0.5 for logprob in logprobs]) for ids, logprobs in scored])
    said, warning = capsys.readouterr().out.splitlines()
    assert said.endswith("differ by 0.5 nats a token")
    assert warning.startswith(f'progress {{"warning": "{said} (expected: at most 0.2); compare')


def test_memory_that_runs_out_is_recognised_whoever_says_so():
    with pytest.raises(RuntimeError) as allocation:
        torch.empty(2**45, dtype=torch.uint8)
    assert is_out_of_memory(allocation.value)
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"))
    assert is_out_of_memory(ValueError("No available memory for the cache blocks. Try increasing"))
    assert not is_out_of_memory(ValueError("generation_batch_size must be divisible by num_generations"))


def test_the_advice_names_what_to_change_and_where_training_continues():
    reason, options = "CUDA out of memory", {"per_device_train_batch_size": 4, "use_vllm": True}
    advice = memory_advice(reason, options, Path("checkpoint-40"))
    for words in (
        reason,
        "trl.per_device_train_batch_size (now 4)",
        "lower trl.vllm_gpu_memory_utilization (now 0.3)",
        "continues from checkpoint-40",
    ):
        assert words in advice
    assert "vllm" not in memory_advice(reason, {}, None)
    assert memory_advice(reason, {}, None).endswith("starts this stage's training anew")
    cache = memory_advice("No available memory for the cache blocks", options, None)
    assert "raise trl.vllm_gpu_memory_utilization" in cache
    assert "lower trl.vllm_gpu" not in cache
