"""The check of a merged adapter, and the advice after training that cannot go on."""

import json
import re

import pytest
import torch
from boards import draw_instances, train_spec

from policy.child import PROBLEM, PROGRESS, is_out_of_memory


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


MEMORY = "CUDA out of memory.*vllm_gpu_memory_utilization .now 0.3.*now 4.*this stage's training anew"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("CUDA out of memory"), MEMORY),
        (ValueError("No available memory for the cache blocks"), "raise trl.vllm_gpu_memory_utilization"),
        (FloatingPointError("loss is nan in step 3"), "loss is nan in step 3.*lower trl.learning_rate"),
    ],
)
def test_a_training_that_cannot_go_on_tells_why_and_the_remedy(error, words, tmp_path, monkeypatch, capsys):
    from policy.grpo import training

    def fails(spec: object) -> None:
        raise error

    monkeypatch.setattr(training, "train", fails)
    spec = train_spec(tmp_path, draw_instances(1), per_device_train_batch_size=4, use_vllm=True)
    with pytest.raises(type(error)):
        training.main(spec)
    entry = json.loads(capsys.readouterr().out.removeprefix(PROGRESS))
    assert re.search(words, entry[PROBLEM])
