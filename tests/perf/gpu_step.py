"""GRPO steps of a model of Qwen3-4B's shape, measured: `python tests/perf/gpu_step.py MODEL FOLDER TOKENS
OUT.json [--rehearse]`, run by gpu.py."""

import json
import sys
import time
from pathlib import Path
from typing import Any

BOARDS = 64
ANSWERS_A_STEP = 16
"""Fewer than the preset's 128: more of them take longer, and without vLLM more memory while they are
generated, as the estimate says too."""
SMALL = {
    "model_type": "qwen3",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 128,
    "vocab_size": 1024,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
    "dtype": "bfloat16",
}
"""The shape of a rehearsal."""


def random_model(folder: Path, rehearse: bool) -> Path:
    """A randomly initialised Qwen3 of the shape, with the tiny policy's tokenizer: no weights can be fetched
    where this has to run."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    from policy.checkpoints import resolve_model

    tokenizer = AutoTokenizer.from_pretrained(resolve_model("tiny"))
    config = AutoConfig.for_model(
        **_config(rehearse), eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = AutoModelForCausalLM.from_config(config).to(torch.bfloat16)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _config(rehearse: bool) -> dict[str, Any]:
    """Fields of the config, whose embedding is the LM head too."""
    from policy.grpo.model_size import CONFIGS

    return SMALL if rehearse else json.loads(CONFIGS.read_text())["Qwen/Qwen3-4B"]


def measure_step(model: Path, folder: Path, length: int, output: Path, rehearse: bool) -> None:
    """Two GRPO steps under the preset's options, of which the second counts; what it took and how much of it
    was generation."""
    from envgen.dataset import read_dataset, write_dataset
    from envgen.family import Source
    from envgen.mapf.prompts import PromptStyle
    from envgen.sampling import sample
    from infra.config.preset import load_preset
    from policy.grpo.model_size import count
    from policy.grpo.train_log import read_train_log
    from policy.grpo.train_spec import TrainSpec

    preset = load_preset("qwen3-4b")
    folder.mkdir(parents=True)
    data = folder / "train.parquet"
    instances = sample(preset.task, preset.default_config, BOARDS, Source(0))[0]
    write_dataset(data, instances, PromptStyle.BOARD, {}, preset.family)
    prompt_tokens = max(_prompt_lengths(model, read_dataset(data)))
    options = _options(preset.trl, length, prompt_tokens)
    spec = TrainSpec(
        parent=str(model),
        data=data,
        output=folder,
        work=folder / "work",
        family=preset.family,
        style=preset.prompt_style,
        rewards=preset.rewards,
        trl=options,
        seed=0,
        training=preset.training,
    )
    generation = _train_timed(spec)
    log = read_train_log(folder / "train_log.parquet")
    seconds, tokens = log["seconds"][-1], log["completion_tokens"][-1]
    trained = ANSWERS_A_STEP * prompt_tokens + tokens
    size = count("", _config(rehearse), preset.training.lora)
    flops = model_flops(_config(rehearse), size.parameters, trained, length)
    found = {
        "options": {key: options[key] for key in sorted(options)},
        "answers_a_step": ANSWERS_A_STEP,
        "prompt_tokens": prompt_tokens,
        "generated_tokens": tokens,
        "step_seconds": round(seconds, 2),
        "generation_share": round(generation / seconds, 3),
        "generated_tokens_per_second": round(tokens / generation, 1),
        "trained_tokens_per_second": round(trained / (seconds - generation), 1),
        "parameters": size.parameters,
        **_memory(size, preset, options, prompt_tokens, length),
        **_utilisation(flops, seconds, generation),
    }
    output.write_text(json.dumps(found))


def _options(trl: dict[str, Any], length: int, prompt_tokens: int) -> dict[str, Any]:
    """The preset's options of TRL for two steps of answers of `length` tokens."""
    options = {
        **trl,
        **_possible(trl),
        "max_completion_length": length,
        "max_steps": 2,
        "save_strategy": "no",
    }
    options["gradient_accumulation_steps"] = ANSWERS_A_STEP // options["per_device_train_batch_size"]
    # Every answer of a random model runs to the limit: masked, none would be learned from.
    options["mask_truncated_completions"] = False
    if options.get("use_vllm"):
        # The tiny policy's tokenizer makes more of a prompt than Qwen's.
        options["vllm_max_model_length"] = length + prompt_tokens
    return options


def _train_timed(spec: Any) -> float:
    """Train; returns the seconds that the last generation took."""
    from policy.grpo import training

    generating = [0.0]

    class Timed(training.Trainer):
        def _generate(self, *arguments: Any, **named: Any) -> Any:
            started = now()
            try:
                return super()._generate(*arguments, **named)
            finally:
                generating.append(now() - started)

    training.Trainer = Timed
    training.train(spec)
    return generating[-1]


def _memory(
    size: Any, preset: Any, options: dict[str, Any], prompt_tokens: int, length: int
) -> dict[str, Any]:
    """Peak memory of the training, in GiB, beside the estimate; None without a GPU."""
    import torch

    from policy.grpo.memory import estimate_memory

    card = torch.cuda.get_device_properties(0).total_memory / 2**30 if torch.cuda.is_available() else None
    estimate = estimate_memory(size, preset.training, options, preset.engine, prompt_tokens, length, card)
    moments = [moment for moment in estimate.moments if "evaluating" not in moment.name]
    expected = max(moment.total for moment in moments)
    measured = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None
    return {
        "peak_allocated_gib": measured and round(measured, 2),
        "counted_gib": round(expected, 2),
        "counted_share_of_peak": measured and round(expected / measured, 3),
    }


def _utilisation(flops: float, seconds: float, generation: float) -> dict[str, float]:
    """What part of the rate of a matrix product is reached by a step that took `seconds`, `generation` of
    them to generate."""
    ceiling = matmul_rate()
    return {
        "matmul_tflops": round(ceiling / 1e12, 1),
        "model_flops_utilisation_while_training": round(flops / (seconds - generation) / ceiling, 3),
        "model_flops_utilisation_of_the_step": round(flops / seconds / ceiling, 3),
    }


def _possible(trl: dict[str, Any]) -> dict[str, Any]:
    """Changes to a preset's options where what they need is not here."""
    from importlib.util import find_spec

    import torch

    changes: dict[str, Any] = {}
    if not torch.cuda.is_available() or not find_spec("vllm"):
        changes |= {"use_vllm": False}
    if not torch.cuda.is_available() or ("8bit" in str(trl.get("optim")) and not find_spec("bitsandbytes")):
        changes |= {"optim": "adamw_torch"}
    return changes if torch.cuda.is_available() else changes | {"bf16": False}


def _prompt_lengths(model: Path, instances: list[Any]) -> list[int]:
    from transformers import AutoTokenizer

    from envgen.mapf.prompts import PromptStyle, prompt

    tokenizer = AutoTokenizer.from_pretrained(model)
    asked = [
        [{"role": "user", "content": prompt(instance.problem, PromptStyle.BOARD)}] for instance in instances
    ]
    return [
        len(
            tokenizer(tokenizer.apply_chat_template(one, tokenize=False, add_generation_prompt=True))[
                "input_ids"
            ]
        )
        for one in asked
    ]


def model_flops(config: dict[str, Any], parameters: int, tokens: int, length: int) -> float:
    """Floating-point operations of a forward and a backward pass over `tokens` in sequences of `length`,
    without recomputation.

    6 for each weight and token, and 6 x layers x query size x length for attention, half of it behind the
    mask (2204.02311, appendix B)."""
    queries = config["num_attention_heads"] * config["head_dim"]
    return tokens * (6.0 * parameters + 6.0 * config["num_hidden_layers"] * queries * length)


def matmul_rate() -> float:
    """FLOP/s of a large bfloat16 matrix product on random data: the ceiling that utilisation is measured
    against."""
    import torch

    size, device = (8192, "cuda") if torch.cuda.is_available() else (1024, "cpu")
    one, other = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        one @ other
    started = now()
    for _ in range(10):
        one @ other
    return 10 * 2 * size**3 / (now() - started)


def now() -> float:
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


if __name__ == "__main__":
    measure_step(
        Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]), "--rehearse" in sys.argv
    )
