"""Log-probabilities of given tokens under a causal language model."""

from collections.abc import Sequence
from typing import Any

import torch


@torch.no_grad()
def token_logprobs(model: Any, sequences: Sequence[list[int]], device: torch.device | str, batch_size: int = 8) -> list[list[float]]:
    """For each token sequence the log-probability, in nats, of every token after the first, given those before it."""
    found: list[list[float]] = []
    for first in range(0, len(sequences), batch_size):
        batch = sequences[first : first + batch_size]
        longest = max(map(len, batch))
        # Padded at the end, where a causal model does not look back from.
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in batch], device=device)
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in batch], device=device)
        logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1].float()
        scores = torch.log_softmax(logits, dim=-1).gather(2, ids[:, 1:, None])[..., 0].tolist()
        found += [row[: len(tokens) - 1] for row, tokens in zip(scores, batch, strict=True)]
    return found
