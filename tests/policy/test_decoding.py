"""Generation in which answers that have ended leave the batch, beside transformers' own."""

import pytest
import torch
from scipy.stats import chisquare
from test_shared_prompts import PADDING, VOCABULARY, small_model
from transformers import DynamicCache

from policy.chat.decoding import decode, drawn


def test_tokens_are_drawn_from_the_softmax_of_their_scores():
    torch.manual_seed(5)
    scores = torch.tensor([[0.0, 1.0, -1.0, 2.0, float("-inf"), 0.5]])
    tokens = drawn(scores.expand(20_000, -1))
    counts = torch.bincount(tokens, minlength=6)
    assert counts[4] == 0
    possible = [0, 1, 2, 3, 5]
    expected = 20_000 * scores.double()[0, possible].softmax(-1)
    assert chisquare(counts[possible].numpy(), expected.numpy()).pvalue > 1e-3


@pytest.mark.parametrize("rows", [1, 7, 40])
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


def test_a_sampled_answer_is_padded_behind_its_end():
    model, ends = small_model(), {3, 4, 5, 6, 7, 8, 9, 10}
    torch.manual_seed(1)
    ids = torch.randint(1, VOCABULARY, (64, 4))
    options = {"max_new_tokens": 10, "do_sample": True, "eos_token_id": sorted(ends)}
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "cache": DynamicCache()}
    answers = model.generate(**inputs, custom_generate=decode, **options)[:, 4:].tolist()
    lengths = [next((n for n, token in enumerate(one, 1) if token in ends), len(one)) for one in answers]
    assert len(set(lengths)) > 3
    assert all(set(answer[length:]) <= {PADDING} for answer, length in zip(answers, lengths, strict=True))
