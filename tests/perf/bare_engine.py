"""A bare engine call, beside which `bench.py` holds our evaluation: the engine's own way to answer all
prompts, and nothing around it.

Runs under the interpreter that has the engine: `python bare_engine.py SPEC.json`; answers all prompts for
each line on standard input, and writes the seconds that it took."""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any


def transformers_call(spec: dict) -> Callable[[], object]:
    """`generate` on batches of prompts in order of length, decoded."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(spec["source"], padding_side="left")
    model: Any = AutoModelForCausalLM.from_pretrained(spec["source"], dtype=spec["dtype"]).eval()

    @torch.inference_mode()
    def call() -> list[str]:
        messages = [[{"role": "user", "content": prompt}] for prompt in spec["prompts"]]
        texts = sorted(
            tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True), key=len
        )
        answers = []
        for first in range(0, len(texts), spec["batch_size"]):
            inputs = tokenizer(
                texts[first : first + spec["batch_size"]],
                add_special_tokens=False,
                padding=True,
                return_tensors="pt",
            )
            output = model.generate(**inputs, do_sample=False, max_new_tokens=spec["max_tokens"])
            answers += tokenizer.batch_decode(
                output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True
            )
        return answers

    return call


def vllm_call(spec: dict) -> Callable[[], object]:
    """`LLM.chat` on all prompts."""
    # As for ours, so that the engines are the same.
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    from vllm import LLM, SamplingParams  # pyright: ignore[reportMissingImports]

    model = LLM(spec["source"], dtype=spec["dtype"], max_num_seqs=spec["batch_size"], enforce_eager=True)
    parameters = SamplingParams(temperature=0, max_tokens=spec["max_tokens"])
    messages = [[{"role": "user", "content": prompt}] for prompt in spec["prompts"]]
    return lambda: model.chat(messages, parameters, use_tqdm=False)


def main() -> None:
    """Answer for each line on standard input."""
    with open(sys.argv[1], encoding="utf-8") as file:
        spec = json.load(file)
    seconds = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    call = {"transformers": transformers_call, "vllm": vllm_call}[spec["backend"]](spec)
    for _ in sys.stdin:
        started = time.perf_counter()
        call()
        seconds.write(f"{time.perf_counter() - started}\n")
        seconds.flush()


if __name__ == "__main__":
    main()
