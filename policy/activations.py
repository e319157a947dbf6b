"""What a forward and backward pass of a dense Qwen3 keeps for its gradients. Imports without torch.

The counts follow Korthikanti et al. 2022 (2205.05198, section 4.1), who add up the inputs that each operation saves for its
backward pass; here for what transformers' Qwen3 saves: RMS norms, norms of queries and keys, SwiGLU, grouped keys and values repeated
for a padded batch, and PyTorch's attention, which recomputes the scores. `h`, `i`, `q`, `k` are the widths of the hidden state, of the MLP,
of all query heads and of all key heads. tests/policy/test_activations.py compares the counts with what PyTorch saves.
"""

from typing import NamedTuple

from policy.shapes import ModelShape

TOKEN_CHUNK, VOCAB_CHUNK = 4096, 32_768
"""Largest tile of logits in TRL 1.16's fused LM head: `kernels.chunked_logprob.TOKEN_CHUNK_SIZE`, `trainer.utils._CHUNKED_LOGPROB_CHUNK_SIZE`."""


class Widths(NamedTuple):
    """Bytes for each element of a width, of one token in one layer."""

    h: float = 0
    i: float = 0
    q: float = 0
    k: float = 0

    def bytes_of(self, shape: ModelShape) -> float:
        """Bytes of one token."""
        return self.h * shape.hidden_size + self.i * shape.intermediate_size + self.q * shape.query_size + self.k * shape.kv_size


class Precision(NamedTuple):
    """How many bytes the tensors of a pass have."""

    compute: int
    """Bytes of what linear maps take and give."""
    residual: int
    """Bytes of the hidden state between layers."""
    saved: Widths
    """What a layer saves."""
    last: int
    """What the norm after the last layer saves: bytes for each element of the hidden state."""
    forward: Widths
    """Buffers that come and go while a layer runs; of the MLP or of attention, whichever is more. Fitted on CPU."""
    backward: Widths
    """Gradients that are alive at the worst time of a layer's backward pass. Fitted on CPU."""
    cast_bytes: int
    """Bytes of the copy that autocast makes of each weight of a linear map; 0 if none is needed."""
    key_bytes: int
    value_bytes: int
    """Of the cache while transformers generates."""


# float32 weights, bfloat16 autocast: norms stay float32 (16h), each linear map casts its own input (10h), queries and keys are float32 in their norm.
AUTOCAST = Precision(2, 4, Widths(26, 8, 14, 6), 8, Widths(i=7, q=20), Widths(i=4, q=3), 2, 4, 2)
# bfloat16 weights: norms save a float32 copy of their input and their result (12h), linear maps share an input (4h).
BFLOAT16 = Precision(2, 2, Widths(16, 8, 14, 6), 6, Widths(i=7, q=12), Widths(h=8, i=4), 0, 2, 2)
# Frozen bfloat16 weights: norms save a float32 input only (8h), each adapter its own input (10h, and 2q at the output map).
ADAPTERS = Precision(2, 2, Widths(18, 8, 14, 4), 4, Widths(i=9.5, q=13), Widths(h=9, i=7), 0, 2, 2)
FLOAT32 = Precision(4, 4, Widths(24, 16, 24, 8), 8, Widths(i=12, q=16), Widths(h=8, i=8), 0, 4, 4)


def precision_of(weight_bytes: int, adapters: bool, autocast: bool, split: bool) -> Precision:
    """How a pass computes: with weights of 4 or 2 bytes, adapters on frozen weights or not, under autocast or not.

    Where weights are split over GPUs they are gathered in bfloat16, so that a pass is one in bfloat16 whatever their own precision.
    """
    if adapters:
        return ADAPTERS if weight_bytes == 2 or split else ADAPTERS._replace(residual=4, cast_bytes=2, key_bytes=4)
    if weight_bytes == 2 or (split and autocast):
        return BFLOAT16
    return AUTOCAST if autocast else FLOAT32


def layer_bytes(shape: ModelShape, precision: Precision, length: int) -> float:
    """Bytes that one layer saves for each token of padded sequences of `length` tokens.

    Beside the widths: the reciprocal norms and the attention's log-sums (float32), and the mask as a row of the attention's bias.
    """
    small = 4 * (2 * shape.heads + shape.kv_heads + 2)
    return precision.saved.bytes_of(shape) + small + precision.compute * length


def saved_bytes(shape: ModelShape, precision: Precision, tokens: int, length: int, checkpointing: bool) -> float:
    """Bytes that a forward pass through all layers leaves for the backward pass, without copies of weights.

    `tokens` are those of a batch, padding included. With checkpointing only the input of each layer is left.
    """
    each = shape.hidden_size * precision.residual if checkpointing else layer_bytes(shape, precision, length)
    return tokens * (shape.layers * each + precision.last * shape.hidden_size)


class PassBytes(NamedTuple):
    """The worst moment of a forward and backward pass, in bytes beside weights, gradients and optimizer."""

    activations: float
    casts: float
    """Copies that autocast made of weights."""
    head: float
    """Of TRL's fused LM head: tiles of logits, gradients of the hidden states and of its weights."""


def pass_bytes(shape: ModelShape, precision: Precision, tokens: int, length: int, scored: int, checkpointing: bool, trained: bool) -> PassBytes:
    """The largest of the moments of a pass over `tokens` tokens in sequences of `length`, of which `scored` get log-probabilities.

    They are: the end of the forward pass, when autocast's copies of all weights are alive; the LM head's backward pass; that of a
    layer, which with checkpointing is computed again first; and that of a tied embedding. `trained`: the embedding is.
    """
    saved = saved_bytes(shape, precision, tokens, length, checkpointing)
    layer = precision.cast_bytes * shape.layer_linear_parameters
    all_casts, left = layer * shape.layers, layer if checkpointing else layer * shape.layers
    again = tokens * layer_bytes(shape, precision, length) if checkpointing else 0
    mlp, attention = (tokens * w.bytes_of(shape) for w in (precision.forward._replace(q=0), precision.forward._replace(i=0)))
    running = max(mlp, attention) if checkpointing else 0
    tile = _tile_bytes(shape, precision, scored)
    states = scored * shape.hidden_size * (precision.residual + 4)
    gradient = 4 * shape.embedding_parameters if trained else 0
    mask = tokens * length  # one byte for each pair of tokens of a sequence
    moments = (
        PassBytes(saved + mask + running, all_casts, 0),
        PassBytes(saved + mask, all_casts, tile + states / 2),
        PassBytes(saved + mask, left, tile + states + gradient),
        PassBytes(saved + mask + again + tokens * precision.backward.bytes_of(shape), left, gradient if shape.tied else 0),
        PassBytes(0, 0, 2 * gradient if shape.tied else gradient),
    )
    return max(moments, key=sum)


def _tile_bytes(shape: ModelShape, precision: Precision, scored: int) -> float:
    columns = min(VOCAB_CHUNK, shape.vocab_size)
    weights = columns * shape.hidden_size * 2 if precision.cast_bytes else 0
    return min(scored, TOKEN_CHUNK) * columns * precision.compute + weights
