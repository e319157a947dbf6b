"""The fast path on a CPU, beside TRL's and transformers' own computation."""

from pathlib import Path

import pytest
import torch
from boards import draw_instances, train_spec
from safetensors.torch import load_file
from scipy.stats import chisquare
from transformers import DynamicCache, Qwen3Config, Qwen3ForCausalLM
from trl.trainer.utils import add_fused_lm_head

from policy.checkpoints import resolve_model
from policy.cpu import NO_LABEL, can_share, decode, distinct, drawn, generate_shared, log_probabilities, pack
from policy.grpo import trainer, training

VOCABULARY, PADDING = 50, 0
PROMPTS, ANSWERS = (5, 3, 8), (4, 1, 0, 6, 6, 2)
"""Lengths; every prompt is asked twice."""


def small_model(**options: object) -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "head_dim": 8}
    shape |= {"num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": VOCABULARY}
    model = Qwen3ForCausalLM(Qwen3Config(max_position_embeddings=64, **shape, **options))
    model.generation_config.pad_token_id = PADDING
    return model


def rows() -> tuple[torch.Tensor, torch.Tensor]:
    """Padded rows in any order, and their attention mask."""
    generator = torch.Generator().manual_seed(1)
    longest, answer = max(PROMPTS), max(ANSWERS)
    ids = torch.full((len(ANSWERS), longest + answer), PADDING)
    mask = torch.zeros_like(ids)
    prompts = [torch.randint(1, VOCABULARY, (length,), generator=generator) for length in PROMPTS]
    for row, length in enumerate(ANSWERS):
        prompt = prompts[row // 2]
        ids[row, longest - len(prompt) : longest] = prompt
        ids[row, longest : longest + length] = torch.randint(1, VOCABULARY, (length,), generator=generator)
        mask[row, longest - len(prompt) : longest + length] = 1
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    return ids[order], mask[order]


def one_by_one(model: Qwen3ForCausalLM, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What TRL's trainer computes."""
    labels = ids.masked_fill(mask == 0, NO_LABEL)
    labels[:, : -max(ANSWERS)] = NO_LABEL
    found = model(input_ids=ids, attention_mask=mask, labels=labels, fused_lm_head=True)
    return found.log_probs[:, -max(ANSWERS) :], found.entropy[:, -max(ANSWERS) :]


def packed(model: Qwen3ForCausalLM, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return log_probabilities(model, pack(ids, mask, max(ANSWERS)))


def test_log_probabilities_entropies_and_gradients_are_those_of_rows_on_their_own():
    model = small_model()
    add_fused_lm_head(model, temperature=0.7, outputs=("log_probs", "entropy"))
    ids, mask = rows()
    weights = torch.randn(len(ids), max(ANSWERS), generator=torch.Generator().manual_seed(2))
    found = []
    for compute in (one_by_one, packed):
        model.zero_grad()
        log_probs, entropies = compute(model, ids, mask)
        (log_probs * weights + entropies).sum().backward()
        found.append([log_probs, entropies, *(parameter.grad.clone() for parameter in model.parameters())])
    for plain, shared in zip(*found, strict=True):
        torch.testing.assert_close(shared, plain, rtol=1e-4, atol=1e-5)


def test_a_prompt_takes_its_place_once():
    ids, mask = rows()
    packed = pack(ids, mask, max(ANSWERS))
    group, first = distinct(ids[:, : max(PROMPTS)])
    assert packed.input_ids.shape[0] == len(first) == len(PROMPTS)
    assert (ids[first][group][:, : max(PROMPTS)] == ids[:, : max(PROMPTS)]).all()
    assert int((packed.labels != NO_LABEL).sum()) == sum(ANSWERS)
    longest = max(a + b for a, b in zip(ANSWERS[::2], ANSWERS[1::2], strict=True))
    assert packed.input_ids.shape[1] == max(PROMPTS) - 1 + longest


def test_what_is_generated_is_the_same():
    model = small_model()
    ids, mask = (tensor[:, : max(PROMPTS)] for tensor in rows())
    # Answers of different lengths.
    answers = model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=9)[:, -9:]
    options = {"max_new_tokens": 9, "eos_token_id": answers.flatten().unique()[:3].tolist()}
    plain, shared = (
        generate(input_ids=ids, attention_mask=mask, **options)
        for generate in (model.generate, lambda **given: generate_shared(model, **given))
    )
    assert torch.equal(plain, shared)


def test_a_model_whose_layers_look_back_by_a_window_is_left_alone():
    assert can_share(small_model(attn_implementation="sdpa"))
    assert not can_share(small_model(use_sliding_window=True, sliding_window=4, max_window_layers=1))


def test_tokens_are_drawn_from_the_softmax_of_their_scores():
    torch.manual_seed(5)
    scores = torch.tensor([[0.0, 1.0, -1.0, 2.0, float("-inf"), 0.5]])
    tokens = drawn(scores.expand(20_000, -1))
    counts = torch.bincount(tokens, minlength=6)
    assert counts[4] == 0
    possible = [0, 1, 2, 3, 5]
    expected = 20_000 * scores.double()[0, possible].softmax(-1)
    assert chisquare(counts[possible].numpy(), expected.numpy()).pvalue > 1e-3


@pytest.mark.parametrize("rows", [1, 40])
def test_each_answer_is_that_of_transformers_whenever_the_others_end(rows: int):
    model = small_model()
    ids = torch.randint(1, VOCABULARY, (rows, 5), generator=torch.Generator().manual_seed(rows))
    mask = torch.ones_like(ids)
    mask[::2, 0], ids[::2, 0] = 0, PADDING
    # So many tokens end an answer that some end at once and some never.
    options = {"max_new_tokens": 12, "eos_token_id": list(range(1, 9))}
    plain = model.generate(input_ids=ids, attention_mask=mask, **options)
    ours = model.generate(input_ids=ids, attention_mask=mask, custom_generate=decode, **options)
    assert torch.equal(plain, ours)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"beta": 0.05}, {"loss_type": "grpo", "num_iterations": 2}])
def test_a_stage_learns_the_same_as_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict):
    generate = Qwen3ForCausalLM.generate

    def decoded(model: Qwen3ForCausalLM, **given: object) -> torch.Tensor:
        """The same answers, with every prompt computed for each of them."""
        cache = DynamicCache(config=model.config)
        return generate(model, **{"custom_generate": decode, "past_key_values": cache} | given)

    monkeypatch.setattr(Qwen3ForCausalLM, "generate", decoded)
    ends = []
    for shares in (True, False):
        monkeypatch.setattr(trainer, "can_share", lambda model, shares=shares: shares)
        folder = tmp_path / str(shares)
        training.train(train_spec(folder, draw_instances(16, seed=5), learning_rate=1e-4, **options))
        ends.append(load_file(folder / "checkpoint" / "model.safetensors"))
    start = load_file(Path(resolve_model("tiny")) / "model.safetensors")
    moved = sum(float((ends[0][name] - start[name]).abs().sum()) for name in start)
    apart = sum(float((ends[0][name] - ends[1][name]).abs().sum()) for name in start)
    assert moved > 1
    assert apart < 1e-3 * moved
