"""Chat model on Hugging Face transformers: left-padded batches, greedy or sampled, JSON schema optional."""

import json
import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LogitsProcessor, LogitsProcessorList

from envgen.errors import ModelError
from policy.chat.contract import Completion
from policy.chat.decoding import decode
from policy.chat.local_model import LocalModel, Question, end_tokens, load_tokenizer
from policy.chat.scoring import token_logprobs
from policy.checkpoints import resolve_model

ONE_THREAD = 4_000_000
"""Parameters up to which a CPU computes with one thread, unless the user says otherwise: `make demo`, with
one million, takes 4 min 30 s with one thread of two and 5 min 15 s with both."""


class TransformersModel(LocalModel):
    """A causal language model with a chat template, answering on one device."""

    def __init__(
        self, source: str, *, batch_size: int = 64, dtype: str = "auto", device: str | None = None
    ) -> None:
        """Load a checkpoint directory or a hub id; raises ModelError if it cannot be loaded."""
        self.batch_size = batch_size
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.model, tokenizer = load(source, dtype)
        self.model.to(self.device).eval()
        limit = getattr(self.model.config, "max_position_embeddings", None)
        super().__init__(source, tokenizer, end_tokens(self.model.generation_config.eos_token_id), limit)

    def step(self) -> dict[int, Completion]:
        """Answer a batch of the shortest prompts that wait."""
        batch = sorted(
            self.waiting.values(), key=lambda question: (len(question.tokens), question.tokens, question.seed)
        )[: self.batch_size]
        # Questions of one call are answered alike; another call's wait.
        batch = [question for question in batch if question.sampling == batch[0].sampling]
        if not batch:
            return {}
        rows = self._generate(batch)
        for question in batch:
            del self.waiting[question.index]
        return {
            question.index: self.completion(question, row) for question, row in zip(batch, rows, strict=True)
        }

    @torch.inference_mode()
    def _generate(self, batch: list[Question]) -> list[list[int]]:
        sampling = batch[0].sampling
        inputs = self.tokenizer.pad(
            {"input_ids": [question.tokens for question in batch]}, padding_side="left", return_tensors="pt"
        ).to(self.device)
        processors = LogitsProcessorList()
        if sampling.json_schema is not None:
            processors.append(self._schema_processor(json.dumps(sampling.json_schema)))
        if sampling.temperature > 0:
            processors.append(_Draw(sampling.temperature, [question.seed for question in batch], self.device))
        options = {
            "do_sample": False,
            "max_new_tokens": sampling.max_tokens,
            "pad_token_id": self.tokenizer.pad_token_id,
        }
        # Processors of ours are made for the rows of a batch, of which none may leave.
        if self.device == "cpu" and not processors and not self.model.generation_config.cache_implementation:
            options["custom_generate"] = decode
        output = self.model.generate(**inputs, **options, logits_processor=processors)
        return output[:, inputs["input_ids"].shape[1] :].tolist()

    def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probabilities from one padded forward pass a batch, in float32."""
        self.check_lengths(sequences, self.limit)
        return token_logprobs(self.model, sequences, self.device)

    def _schema_processor(self, schema: str) -> Any:
        from xgrammar.contrib.hf import LogitsProcessor as SchemaProcessor

        return SchemaProcessor(_compiled(self.tokenizer, self.model.config.vocab_size, schema))


class _Draw(LogitsProcessor):
    """Makes the largest score a draw at a temperature, by the Gumbel-max trick (1411.0030).

    The draw is argmax(score / T + G) with Gumbel noise G. Each row has a generator of its own, so that its
    draws do not depend on the company in the batch.
    """

    def __init__(self, temperature: float, seeds: list[int], device: str) -> None:
        self.temperature = temperature
        self.generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        noise = torch.empty_like(scores)
        for row, generator in zip(noise, self.generators, strict=True):
            row.exponential_(generator=generator)
        return scores / self.temperature - noise.log_()


@lru_cache(maxsize=8)
def _compiled(tokenizer: Any, vocab_size: int, schema: str) -> Any:
    import xgrammar

    info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=vocab_size)
    return xgrammar.GrammarCompiler(info).compile_json_schema(
        schema, any_whitespace=False, separators=(",", ":"), strict_mode=True
    )


def load(source: str, dtype: str = "auto") -> tuple[Any, Any]:
    """Model and tokenizer of a checkpoint directory or hub id; ModelError says what is missing."""
    tokenizer = load_tokenizer(source)
    try:
        model = AutoModelForCausalLM.from_pretrained(resolve_model(source), dtype=dtype)
    except (OSError, ValueError) as error:
        raise ModelError(f"{source}: cannot be loaded: {error}") from None
    if model.num_parameters() <= ONE_THREAD and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    return model, tokenizer
