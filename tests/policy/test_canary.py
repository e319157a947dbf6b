"""The check of a merged adapter, and the advice after running out of memory."""

from pathlib import Path

import pytest
import torch

from policy.child import is_out_of_memory
from policy.grpo.launch import memory_advice
from policy.grpo.train_spec import TrainingSettings, deciding_options, last_checkpoint


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
