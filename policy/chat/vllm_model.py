"""Chat model on vLLM's offline engine, with the same chat template and schema as on transformers.

It batches continuously and caches prefixes. Runs under an interpreter that has vLLM, which need not have what
the rest of envwright imports.
"""

import json
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from envgen.errors import ModelError
from policy.chat.contract import Completion, Conversation, Sampling
from policy.chat.engine_config import EngineConfig
from policy.chat.local_model import LocalModel, Question, end_tokens, load_tokenizer
from policy.checkpoints import resolve_model

_ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    # Read on a CPU only: GiB of the key-value cache, and threads that may move, as two engines would be bound
    # to the same core.
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
"""Set unless the environment says otherwise."""


class VllmModel(LocalModel):
    """A causal language model with a chat template on vLLM, on all devices that it sees."""

    def __init__(self, source: str, config: EngineConfig) -> None:
        """Start the engine on a checkpoint directory or a hub id; raises ModelError if it does not start."""
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        tokenizer = load_tokenizer(source)
        try:
            self.engine = _start(resolve_model(source), config)
        except (RuntimeError, ValueError, OSError, ImportError) as error:
            said = f"{source}: vLLM does not start on it: {error}; what it said before is in the engine's log"
            raise ModelError(f"{said}; if it lacks memory, {config.less_memory}") from None
        model = self.engine.model_config
        ends = end_tokens(model.try_get_generation_config().get("eos_token_id"))
        super().__init__(source, tokenizer, ends, model.max_model_len)

    def add(self, conversations: Mapping[int, Conversation], sampling: Sampling) -> list[Question]:
        """Hand conversations to the engine, which works on as many of them as it has room for."""
        questions = super().add(conversations, sampling)
        for question in questions:
            self._request(str(question.index), question.tokens, self._parameters(question))
        return questions

    def step(self) -> dict[int, Completion]:
        """One more token for all that are being answered."""
        found = {}
        for output in self.engine.step():
            if output.finished:
                question = self.waiting.pop(int(output.request_id))
                found[question.index] = self.completion(question, list(output.outputs[0].token_ids))
        return found

    def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probabilities of prompts; a sequence must leave room for one more token."""
        from vllm import SamplingParams  # pyright: ignore[reportMissingImports]

        self.check_lengths(sequences, self.limit - 1 if self.limit else None)
        # Of a prompt's tokens; for those of an answer the logprobs at temperature 1 are vLLM's default too
        # (`raw_logprobs`).
        parameters = SamplingParams(prompt_logprobs=0, max_tokens=1, temperature=0, detokenize=False)
        for index, sequence in enumerate(sequences):
            self._request(str(index), list(sequence), parameters)
        found: dict[int, list[float]] = {}
        while self.engine.has_unfinished_requests():
            for output in self.engine.step():
                if output.finished:
                    pairs = zip(output.prompt_token_ids[1:], output.prompt_logprobs[1:], strict=True)
                    found[int(output.request_id)] = [known[token].logprob for token, known in pairs]
        return [found[index] for index in range(len(sequences))]

    def _request(self, name: str, tokens: list[int], parameters: Any) -> None:
        from vllm import TokensPrompt  # pyright: ignore[reportMissingImports]

        [prompt] = self.engine.renderer.render_cmpl([TokensPrompt(prompt_token_ids=tokens)])
        self.engine.add_request(name, prompt, parameters)

    def _parameters(self, question: Question) -> Any:
        from vllm import SamplingParams  # pyright: ignore[reportMissingImports]
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams  # pyright: ignore[reportMissingImports]

        sampling = question.sampling
        grammar = None if sampling.json_schema is None else _grammar(json.dumps(sampling.json_schema))
        return SamplingParams(
            temperature=sampling.temperature,
            top_p=1.0,
            top_k=0,
            seed=question.seed if sampling.temperature else None,
            max_tokens=sampling.max_tokens,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
            structured_outputs=None if grammar is None else StructuredOutputsParams(grammar=grammar),
        )


def _start(path: str, config: EngineConfig) -> Any:
    from vllm import EngineArgs, LLMEngine  # pyright: ignore[reportMissingImports]
    from vllm.config import StructuredOutputsConfig  # pyright: ignore[reportMissingImports]
    from vllm.platforms import current_platform  # pyright: ignore[reportMissingImports]

    if current_platform.is_cpu() and config.tensor_parallel == 1:
        # One process instead of three, each of which takes ten seconds to start.
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    share = config.gpu_memory_utilization
    return LLMEngine.from_engine_args(
        EngineArgs(
            model=path,
            trust_remote_code=False,
            dtype=config.dtype,
            tensor_parallel_size=config.tensor_parallel,
            max_model_len=config.max_model_len,
            max_num_seqs=config.batch_size,
            enable_prefix_caching=True,
            structured_outputs_config=StructuredOutputsConfig(backend="xgrammar"),
            # Compiling takes a minute there, and pays for large models only.
            enforce_eager=current_platform.is_cpu(),
            disable_log_stats=True,
            **({} if share is None else {"gpu_memory_utilization": share}),
        )
    )


@lru_cache(maxsize=8)
def _grammar(schema: str) -> str:
    """The grammar of a schema as on transformers.

    vLLM's own JSON mode writes a blank after each comma and colon, which costs tokens.
    """
    import xgrammar

    grammar = xgrammar.Grammar.from_json_schema(
        schema, any_whitespace=False, separators=(",", ":"), strict_mode=True
    )
    return str(grammar)
