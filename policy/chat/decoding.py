"""Generation in which ended answers leave the batch, for `custom_generate` of transformers' `generate`.

On a CPU a step takes as long as its batch is large, and most answers end well before the longest:
transformers computes them to the end of the longest all the same.
"""

from typing import Any

import torch
from transformers import Cache, GenerationConfig, LogitsProcessorList, StoppingCriteriaList

DROPPED_AT = 0.2
"""Share of ended answers at which they leave the batch: leaving copies the cache of the others."""


def decode(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: LogitsProcessorList,
    stopping_criteria: StoppingCriteriaList,
    generation_config: GenerationConfig,
    **inputs: Any,
) -> torch.Tensor:
    """Prompts and answers, [B, P + C], padded behind an answer's end; greedy, or drawn if the config samples.

    `input_ids`, [B, P], are padded on the left. `inputs` has their attention mask and the cache, which holds
    any number of tokens below P of each row. Processors and criteria must treat each row alone, whatever its
    place in the batch, as those that transformers makes from a generation config do.
    """
    attention_mask = inputs.get("attention_mask")
    if attention_mask is None:  # no prompt is padded
        attention_mask = torch.ones_like(input_ids)
    cache: Cache = inputs["cache"]
    pad, length = generation_config.pad_token_id, input_ids.shape[1]
    longest = stopping_criteria.max_length or generation_config.max_length
    output = input_ids.new_full((len(input_ids), longest), pad)
    output[:, :length] = input_ids
    rows = torch.arange(len(input_ids), device=input_ids.device)
    ended = torch.zeros_like(rows, dtype=torch.bool)
    new = input_ids[:, cache.get_seq_length() :]
    while not ended.all():
        positions = (attention_mask.cumsum(1) - 1).clamp(min=0)[:, -new.shape[1] :]
        found = model(
            input_ids=new,
            attention_mask=attention_mask,
            position_ids=positions,
            cache=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        scores = logits_processor(input_ids, found.logits[:, -1].float())
        tokens = drawn(scores) if generation_config.do_sample else scores.argmax(-1)
        new = tokens.where(~ended, pad)[:, None]
        output[rows, length] = new[:, 0]
        length += 1
        input_ids = torch.cat([input_ids, new], 1)
        attention_mask = torch.cat([attention_mask, torch.ones_like(new)], 1)
        ended |= stopping_criteria(input_ids, None)
        if DROPPED_AT <= ended.float().mean() < 1:
            left = (~ended).nonzero()[:, 0]
            cache.batch_select_indices(left)
            rows, ended, new = rows[left], ended[left], new[left]
            input_ids, attention_mask = input_ids[left], attention_mask[left]
            drop_rows(logits_processor, left)
    return output[:, :length]


def drop_rows(processors: LogitsProcessorList, rows: torch.Tensor) -> None:
    """Keep only `rows` of the prompt lengths that the repetition penalty stores for each row."""
    for processor in processors:
        if isinstance(lengths := getattr(processor, "prompt_ignore_length", None), torch.Tensor):
            processor.prompt_ignore_length = lengths[rows.to(lengths.device)]


def drawn(scores: torch.Tensor) -> torch.Tensor:
    """A token for each row of scores, [B, V], drawn from their softmax by inversion.

    `torch.multinomial` takes far longer on a CPU.
    """
    cumulative = scores.softmax(-1).cumsum(-1)
    places = torch.rand_like(cumulative[:, :1]) * cumulative[:, -1:]
    return torch.searchsorted(cumulative, places, right=True).clamp(max=scores.shape[-1] - 1)[:, 0]
