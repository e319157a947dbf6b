"""Chat model on Hugging Face transformers: left-padded batches, greedy or sampled, JSON schema optional."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import torch
from transformers import AutoModelForCausalLM, LogitsProcessor, LogitsProcessorList, TopPLogitsWarper

from envgen.errors import ModelError, excerpt
from envgen.seeds import seed_integer
from policy.chat.contract import Completion, Conversation, Progress, Sampling, equal_groups
from policy.chat.tokenizer import generation_config, load_tokenizer, opening, refused
from policy.checkpoints import resolve_model
from policy.cpu import decode

ONE_THREAD = 4_000_000
"""Parameters up to which a CPU computes with one thread, unless the user says otherwise: `make demo`, with
one million, takes 4 min 30 s with one thread of two and 5 min 15 s with both."""


@dataclass(frozen=True)
class Question:
    """A conversation as token ids."""

    index: int
    tokens: list[int]
    seed: int
    """Seed of a sampled answer: from the sampling's seed, the prompt, and the rank among equal prompts."""


class TransformersModel:
    """A causal language model with a chat template, answering on one device."""

    def __init__(
        self,
        source: str,
        *,
        batch_size: int = 64,
        dtype: str = "auto",
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        """Load a checkpoint directory or a hub id; raises ModelError if it cannot be loaded."""
        self.source, self.batch_size = source, batch_size
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model, self.tokenizer = load(source, dtype, template_kwargs)
        self.model.to(self.device).eval()
        self.opening = opening(self.tokenizer)
        self.ends = tuple(self.model.generation_config.eos_token_id)
        self.limit: int | None = getattr(self.model.config, "max_position_embeddings", None)

    def complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress | None = None
    ) -> list[Completion]:
        """Complete every conversation, the shortest prompts first; answers do not depend on the order.
        ModelError if a conversation does not fit."""
        questions = self._questions(conversations, sampling)
        questions.sort(key=lambda question: (len(question.tokens), question.tokens, question.seed))
        completions: dict[int, Completion] = {}
        for first in range(0, len(questions), self.batch_size):
            batch = questions[first : first + self.batch_size]
            rows = self._generate(batch, sampling)
            new = {q.index: self._completion(q, row) for q, row in zip(batch, rows, strict=True)}
            completions |= new
            if progress:
                progress(new)
        return [completions[index] for index in range(len(conversations))]

    def _questions(self, conversations: Sequence[Conversation], sampling: Sampling) -> list[Question]:
        if not conversations:
            return []
        groups = equal_groups(conversations)
        messages = [[message.model_dump() for message in conversations[group[0]]] for group in groups]
        with refused(f"{self.source}: its chat template does not take these questions"):
            prompts = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        encoded = self.tokenizer(prompts, add_special_tokens=False)["input_ids"]
        longest = max(map(len, encoded))
        if self.limit and longest + sampling.max_tokens > self.limit:
            room = self.limit - longest
            shorter = "shorten the prompt or choose another model"
            remedy = f"lower max_tokens to {room}" if room > 0 else shorter
            length = f"a prompt of {longest} tokens and an answer of up to {sampling.max_tokens}"
            raise ModelError(f"{self.source}: {length} exceed the model's {self.limit}; {remedy}")
        return [
            Question(index, tokens, seed_integer(sampling.seed, prompt, rank) if sampling.temperature else 0)
            for group, prompt, tokens in zip(groups, prompts, encoded, strict=True)
            for rank, index in enumerate(group)
        ]

    def _completion(self, question: Question, row: list[int]) -> Completion:
        """The completion from its tokens, of which those after the end do not count."""
        end = next((place for place, token in enumerate(row) if token in self.ends), None)
        return Completion(
            text=self.opening + self.tokenizer.decode(row[:end], skip_special_tokens=True),
            prompt_tokens=len(question.tokens),
            completion_tokens=len(row) if end is None else end + 1,
            finish_reason="length" if end is None else "stop",
        )

    @torch.inference_mode()
    def _generate(self, batch: list[Question], sampling: Sampling) -> list[list[int]]:
        inputs = self.tokenizer.pad(
            {"input_ids": [question.tokens for question in batch]}, padding_side="left", return_tensors="pt"
        ).to(self.device)
        processors = LogitsProcessorList()
        if sampling.json_schema is not None:
            from xgrammar.contrib.hf import LogitsProcessor as SchemaProcessor

            schema = json.dumps(sampling.json_schema)
            grammar = _compiled(self.tokenizer, self.model.config.vocab_size, self.ends, schema)
            processors.append(SchemaProcessor(grammar))
        if sampling.temperature > 0:
            seeds = [question.seed for question in batch]
            processors.append(_Draw(sampling.temperature, sampling.top_p, seeds, self.device))
        options = {
            "do_sample": False,
            "max_new_tokens": sampling.max_tokens,
            "pad_token_id": self.tokenizer.pad_token_id,
        }
        # Processors of ours are made for the rows of a batch, of which none may leave.
        if self.device == "cpu" and not processors:
            options["custom_generate"] = decode
        output = self.model.generate(**inputs, **options, logits_processor=processors)
        return output[:, inputs["input_ids"].shape[1] :].tolist()


class _Draw(LogitsProcessor):
    """Makes the largest score a draw at a temperature, by the Gumbel-max trick (1411.0030): argmax(score / T
    + G) with Gumbel noise G, among the likeliest tokens that together have the probability `top_p`. Each row
    has its own generator, so that its draws do not depend on the batch."""

    def __init__(self, temperature: float, top_p: float, seeds: list[int], device: str) -> None:
        self.temperature, self.nucleus = temperature, cast(Any, TopPLogitsWarper(top_p))
        self.generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        noise = torch.empty_like(scores)
        for row, generator in zip(noise, self.generators, strict=True):
            row.exponential_(generator=generator)
        scores = scores / self.temperature
        if self.nucleus.top_p < 1:
            scores = self.nucleus(input_ids, scores)
        return scores - noise.log_()


@lru_cache(maxsize=8)
def _compiled(tokenizer: Any, vocab_size: int, ends: tuple[int, ...], schema: str) -> Any:
    import xgrammar

    info = xgrammar.TokenizerInfo.from_huggingface(
        tokenizer, vocab_size=vocab_size, stop_token_ids=list(ends)
    )
    return xgrammar.GrammarCompiler(info).compile_json_schema(
        schema, any_whitespace=False, separators=(",", ":"), strict_mode=True
    )


def load(
    source: str, dtype: str = "auto", template_kwargs: Mapping[str, Any] | None = None
) -> tuple[Any, Any]:
    """Model and tokenizer of a checkpoint directory or hub id; ModelError says what is missing."""
    tokenizer = load_tokenizer(source, template_kwargs)
    with refused(f"{source}: cannot be loaded"):
        safe = {"trust_remote_code": False, "use_safetensors": True}
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            resolve_model(source), dtype=dtype, output_loading_info=True, **safe
        )
        model, report = loaded
    if missing := sorted(report["missing_keys"]):
        # They would be drawn at random, and nobody would notice.
        problem = f"its files lack {len(missing)} of its weights, as {excerpt(missing[0])}"
        raise ModelError(f"{source}: {problem}; get them anew")
    model.generation_config = generation_config(tokenizer, model.generation_config)
    if model.num_parameters() <= ONE_THREAD and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    return model, tokenizer
