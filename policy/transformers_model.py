"""Chat model on Hugging Face transformers: batched, left-padded, greedy or sampled, optionally under a JSON schema."""

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from envgen.errors import ModelError
from policy.chat import Completion, Conversation, Sampling
from policy.checkpoints import resolve_model


class TransformersModel:
    """A causal language model with a chat template, answering on one device."""

    def __init__(self, source: str, *, batch_size: int = 64, dtype: str = "auto", device: str | None = None) -> None:
        """Load a checkpoint directory or a hub id; raises ModelError if it cannot be loaded."""
        self.source, self.batch_size = source, batch_size
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.model, self.tokenizer = load(source, dtype)
        self.model.to(self.device).eval()

    def complete(self, conversations: Sequence[Conversation], sampling: Sampling, progress: Callable[[int], None] | None = None) -> list[Completion]:
        """Complete every conversation in order. Batches hold prompts of similar length; answers do not depend on the order asked."""
        prompts = [self.tokenizer.apply_chat_template([m.model_dump() for m in c], tokenize=False, add_generation_prompt=True) for c in conversations]
        encoded = self.tokenizer(prompts, add_special_tokens=False)["input_ids"] if prompts else []
        limit = getattr(self.model.config, "max_position_embeddings", None)
        longest = max(map(len, encoded), default=0)
        if limit and longest + sampling.max_tokens > limit:
            raise ModelError(
                f"{self.source}: a prompt of {longest} tokens and an answer of up to {sampling.max_tokens} exceed the model's {limit}; lower max_tokens"
            )
        order = sorted(range(len(encoded)), key=lambda i: (len(encoded[i]), prompts[i]))
        done: dict[int, Completion] = {}
        torch.manual_seed(sampling.seed)
        for first in range(0, len(order), self.batch_size):
            batch = order[first : first + self.batch_size]
            done.update(zip(batch, self._generate([encoded[i] for i in batch], sampling), strict=True))
            if progress:
                progress(len(done))
        return [done[i] for i in range(len(conversations))]

    @torch.inference_mode()
    def _generate(self, encoded: list[list[int]], sampling: Sampling) -> list[Completion]:
        inputs = self.tokenizer.pad({"input_ids": encoded}, padding_side="left", return_tensors="pt").to(self.device)
        options: dict[str, Any] = {"do_sample": sampling.temperature > 0}
        if sampling.temperature > 0:
            options |= {"temperature": sampling.temperature, "top_p": 1.0, "top_k": 0}
        if sampling.json_schema is not None:
            options["logits_processor"] = [self._schema_processor(json.dumps(sampling.json_schema))]
        output = self.model.generate(**inputs, **options, max_new_tokens=sampling.max_tokens, pad_token_id=self.tokenizer.pad_token_id)
        return [self._completion(len(ids), row) for ids, row in zip(encoded, output[:, inputs["input_ids"].shape[1] :].tolist(), strict=True)]

    def _completion(self, prompt_tokens: int, row: list[int]) -> Completion:
        ends = self.model.generation_config.eos_token_id
        ends = set(ends) if isinstance(ends, list) else {ends}
        length = next((i for i, token in enumerate(row) if token in ends), None)
        text = self.tokenizer.decode(row if length is None else row[:length], skip_special_tokens=True)
        return Completion(
            text=text,
            prompt_tokens=prompt_tokens,
            completion_tokens=len(row) if length is None else length + 1,
            finish_reason="length" if length is None else "stop",
        )

    def _schema_processor(self, schema: str) -> Any:
        from xgrammar.contrib.hf import LogitsProcessor

        return LogitsProcessor(_compiled(self.tokenizer, self.model.config.vocab_size, schema))


@lru_cache(maxsize=8)
def _compiled(tokenizer: Any, vocab_size: int, schema: str) -> Any:
    import xgrammar

    info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=vocab_size)
    return xgrammar.GrammarCompiler(info).compile_json_schema(schema, any_whitespace=False, separators=(",", ":"), strict_mode=True)


def load(source: str, dtype: str = "auto") -> tuple[Any, Any]:
    """Model and tokenizer of a checkpoint directory or hub id; ModelError says what is missing."""
    source = resolve_model(source)
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, padding_side="left")
        model = AutoModelForCausalLM.from_pretrained(source, dtype=dtype)
    except (OSError, ValueError) as error:
        raise ModelError(f"{source}: cannot be loaded: {error}") from None
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.chat_template is None:
        raise ModelError(f"{source}: its tokenizer has no chat template; use an instruction-tuned model")
    return model, tokenizer
