"""Faster generation and training on a CPU: 2.1 to 2.6 times as fast a step as without.

GRPO samples several completions of each prompt; TRL computes the prompt anew for each. Here a prompt is
prefilled once for all of its completions, and trained on in one sequence with them: the prompt, then each
completion, which attends to the prompt and to itself alone. In generation, completions that have ended leave
the batch. Logits are the same up to rounding.
"""

from typing import Any, NamedTuple

import torch
from transformers import (
    Cache,
    DynamicCache,
    GenerationConfig,
    LogitsProcessorList,
    PreTrainedModel,
    StoppingCriteriaList,
)

NO_LABEL = -100
DROPPED_AT = 0.2
"""Share of ended answers at which they leave the batch: leaving copies the cache of the others."""


class Packed(NamedTuple):
    """Prompts with all of their answers: G sequences of T tokens from B answers of at most C tokens."""

    input_ids: torch.Tensor
    """[G, T]: a prompt but its last token, then for each answer that token and the answer but its last."""
    attention_mask: torch.Tensor
    """[G, 1, T, T], bool: what a token attends to."""
    position_ids: torch.Tensor
    """[G, T]: as if each answer were the only one."""
    labels: torch.Tensor
    """[G, T]: the token after each, NO_LABEL where it is none of an answer."""
    places: torch.Tensor
    """[B, C]: where in the flattened sequences each answer token is predicted; 0 behind an answer's end."""
    answered: torch.Tensor
    """[B, C], bool: whether there is a token."""


def can_share(model: PreTrainedModel) -> bool:
    """Whether a model can be told by a mask what each token attends to."""
    layers = set(getattr(model.config, "layer_types", None) or ["full_attention"])
    return layers == {"full_attention"} and model.config._attn_implementation in ("sdpa", "eager")


def pack(input_ids: torch.Tensor, attention_mask: torch.Tensor, answer_length: int) -> Packed:
    """Pack rows of prompts, padded on the left, with answers of at most `answer_length` tokens, padded on the
    right; both arguments are [B, P + answer_length]."""
    prompt_length = input_ids.shape[1] - answer_length
    group, first = distinct(input_ids[:, :prompt_length])
    prompts, mask = input_ids[first, :prompt_length], attention_mask[first, :prompt_length].bool()
    answered = attention_mask[:, prompt_length:].bool()
    lengths, groups = answered.sum(1), len(first)
    starts = prompt_length - 1 + _lengths_before(lengths, group)
    length = int((starts + lengths).max())
    steps = torch.arange(answer_length, device=input_ids.device)
    places = (group * length + starts)[:, None] + steps
    inside = places[answered]

    def sequences(fill: int, of_prompts: torch.Tensor | int, of_answers: torch.Tensor) -> torch.Tensor:
        tokens = torch.full((groups, length), fill, dtype=torch.long, device=input_ids.device)
        tokens[:, : prompt_length - 1] = of_prompts
        tokens.view(-1)[inside] = of_answers[answered]
        return tokens

    # 0 is the prompt, which all attend to; -1 is padding.
    numbers = torch.arange(1, len(group) + 1, device=group.device)[:, None]
    part = sequences(-1, mask[:, :-1].long() - 1, numbers.expand_as(answered))
    seen = (part[:, :, None] == part[:, None, :]) | (part[:, None, :] == 0)
    earlier = torch.ones(length, length, dtype=torch.bool, device=input_ids.device).tril()
    positions, last = (mask.long().cumsum(1) - 1).clamp(min=0), mask.sum(1) - 1
    return Packed(
        input_ids=sequences(0, prompts[:, :-1], input_ids[:, prompt_length - 1 : -1]),
        attention_mask=(seen & earlier)[:, None],
        position_ids=sequences(0, positions[:, :-1], last[group][:, None] + steps),
        labels=sequences(NO_LABEL, NO_LABEL, input_ids[:, prompt_length:]),
        places=places.where(answered, 0),
        answered=answered,
    )


def log_probabilities(model: Any, packed: Packed) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probability and entropy, [B, C] each, of every answer token; 0 behind the end of an answer. `model`
    has TRL's fused head, perhaps without entropy."""
    output = model(
        input_ids=packed.input_ids,
        attention_mask=packed.attention_mask,
        position_ids=packed.position_ids,
        shift_labels=packed.labels,
        fused_lm_head=True,
    )

    def unpacked(values: torch.Tensor) -> torch.Tensor:
        return values.reshape(-1)[packed.places] * packed.answered

    return unpacked(output.log_probs), None if output.entropy is None else unpacked(output.entropy)


def generate_shared(
    model: Any, *, input_ids: torch.Tensor, attention_mask: torch.Tensor, **options: Any
) -> Any:
    """`model.generate`, but equal rows of `input_ids`, [B, P], padded on the left, are prefilled once, and
    ended answers leave the batch."""
    group, first = distinct(input_ids)
    cache, mask = DynamicCache(config=model.config), attention_mask[first, :-1]
    if input_ids.shape[1] > 1:
        with torch.no_grad():
            model(
                input_ids=input_ids[first, :-1],
                attention_mask=mask,
                position_ids=(mask.cumsum(1) - 1).clamp(min=0),
                cache=cache,
                use_cache=True,
                logits_to_keep=1,
            )
        cache.batch_select_indices(group)
    options |= {"cache": cache, "custom_generate": decode}
    return type(model).generate(model, input_ids=input_ids, attention_mask=attention_mask, **options)


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
    any number of tokens below P of each row. Processors and criteria must treat each row alone."""
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
        outputs = model(
            input_ids=new,
            attention_mask=attention_mask,
            position_ids=positions,
            cache=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        scores = logits_processor(input_ids, outputs.logits[:, -1].float())
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
    return output[:, :length]


def drawn(scores: torch.Tensor) -> torch.Tensor:
    """A token for each row of scores, [B, V], drawn from their softmax by inversion, which is far faster on a
    CPU than `torch.multinomial`."""
    cumulative = scores.softmax(-1).cumsum(-1)
    places = torch.rand_like(cumulative[:, :1]) * cumulative[:, -1:]
    return torch.searchsorted(cumulative, places, right=True).clamp(max=scores.shape[-1] - 1)[:, 0]


def distinct(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The number of each of B rows among the G different ones, [B], and the first row equal to each, [G]."""
    different, group = torch.unique(rows, dim=0, return_inverse=True)
    numbers = torch.arange(len(rows), device=rows.device)
    return group, numbers.new_full((len(different),), len(rows)).scatter_reduce(0, group, numbers, "amin")


def _lengths_before(lengths: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
    """For each row, the sum of the lengths of earlier rows of its group, [B]."""
    order = torch.argsort(group, stable=True)
    before = lengths[order].cumsum(0) - lengths[order]
    begin = torch.searchsorted(group[order], group[order])
    return torch.empty_like(lengths).scatter(0, order, before - before[begin])
