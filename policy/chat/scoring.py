"""Log-probabilities of given tokens under a causal language model."""

from collections.abc import Sequence
from typing import Any

import torch

SCORED_TOKENS = 8_192
"""Tokens scored together at most, padding included; their logits over the vocabulary are held in memory."""


@torch.no_grad()
def token_logprobs(
    model: Any, sequences: Sequence[Sequence[int]], device: torch.device | str, at_once: int = SCORED_TOKENS
) -> list[list[float]]:
    """For each token sequence the log-probability, in nats, of each token after the first given those before.

    One padded forward pass for as many sequences as make `at_once` tokens, at least one; the softmax in
    float32.
    """
    found: dict[int, list[float]] = {}
    order = sorted(range(len(sequences)), key=lambda index: len(sequences[index]))
    size = max(1, at_once // len(sequences[order[-1]])) if order else 1
    for first in range(0, len(order), size):
        batch = order[first : first + size]
        longest = len(sequences[batch[-1]])
        # Padded at the end, where a causal model does not look back from.
        ids = torch.tensor(
            [[*sequences[i], *[0] * (longest - len(sequences[i]))] for i in batch], device=device
        )
        mask = torch.tensor(
            [[1] * len(sequences[i]) + [0] * (longest - len(sequences[i])) for i in batch], device=device
        )
        logits = model(input_ids=ids, attention_mask=mask).logits
        for row, index in enumerate(batch):
            following = ids[row, 1 : len(sequences[index])]
            known = logits[row, : len(following)].float().log_softmax(dim=-1)
            found[index] = known.gather(1, following[:, None])[:, 0].tolist()
    return [found[index] for index in range(len(sequences))]
