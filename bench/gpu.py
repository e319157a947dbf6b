"""What training costs on this GPU, without any download: `python bench/gpu.py [--out gpu.json] [PART ...]`.

Parts, all but the last by default, about ten minutes on an H100:

- `tiny`: one stage of the preset `tiny` and its evaluation, on the GPU and on the CPU.
- `shapes`: seconds and peak memory of a training step of Qwen3 0.6B, 1.7B and 4B with random weights, by the
  options of their presets, with completions of 512 to 8,192 tokens; generation is left out.
- `refill`: `bench/refill.py` on `tiny`, three seeds, all at once.
- `model`: warm start and two stages of the preset `smollm2-135m` from `--model FOLDER`.

`--rehearse` runs the first three on a CPU with small shapes in some minutes. Results are written as JSON
after each part, and printed as tables.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

PROMPT = 600
"""Tokens of a question about a board of 6x6 in the board style, as Qwen3 counts them."""
LENGTHS = (512, 2048, 4096, 8192)
PRESETS = ("qwen3-0.6b", "qwen3-1.7b", "qwen3-4b", "qwen3-4b-lora")
COMMON = {"vocab_size": 151_936, "head_dim": 128, "num_key_value_heads": 8, "tie_word_embeddings": True}
SHAPES: dict[str, dict[str, Any]] = {
    "qwen3-0.6b": {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28},
    "qwen3-1.7b": {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28},
    "qwen3-4b": {
        "hidden_size": 2560,
        "intermediate_size": 9728,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
    },
}
"""Of the published configs; 16 heads of attention where none are named."""


def shape_steps(name: str, lengths: list[int], rehearse: bool) -> list[dict[str, Any]]:
    """Seconds and peak memory of the second of two training steps for each completion length.

    A step has as many passes as give one group of answers, instead of the preset's.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from infra.config.preset import load_preset
    from policy.chat.tokenizer import load_tokenizer
    from policy.checkpoints import resolve_model

    preset = load_preset(name)
    shape = SHAPES[name.removesuffix("-lora")]
    if rehearse:
        small = {"vocab_size": 2000, "head_dim": 8, "num_attention_heads": 8}
        shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, **small}
    config = AutoConfig.for_model("qwen3", **{"num_attention_heads": 16, **COMMON, **shape})
    dtype = getattr(torch, str(preset.training.dtype))
    gpu, rows = torch.cuda.is_available(), []
    tokenizer = load_tokenizer(resolve_model("tiny"))
    for length in lengths:
        with torch.device("cuda" if gpu else "cpu"):
            model = AutoModelForCausalLM.from_config(config, dtype=dtype)
        row = {"preset": name, "tokens": length, "parameters": model.num_parameters()}
        try:
            rows.append(row | _step(preset, model, tokenizer, length))
        except torch.OutOfMemoryError:
            rows.append(row | {"problem": "out of memory"})
        except Exception as error:  # one option that does not work here must not hide the rest
            rows.append(row | {"problem": f"{type(error).__name__}: {error}"[:200]})
        print(rows[-1], file=sys.stderr, flush=True)
        del model
        if gpu:
            torch.cuda.empty_cache()
    return rows


def _step(preset: Any, model: Any, tokenizer: Any, length: int) -> dict[str, Any]:
    import numpy as np
    import torch
    from datasets import Dataset
    from peft import LoraConfig

    from policy.grpo.check import grpo_arguments
    from policy.grpo.trainer import Trainer

    rng, times = np.random.default_rng(0), []

    class Drawn(Trainer):
        """Answers are random tokens."""

        def _generate(self, prompts: list[Any]) -> Any:
            asked, answers = (
                [rng.integers(5, len(tokenizer), size).tolist() for _ in prompts]
                for size in (min(PROMPT, 2 * length), length)
            )
            turns = [[{"role": "assistant", "content": ""}] for _ in prompts]
            for name in ("completions/mean_length", "completions/clipped_ratio"):
                self._metrics["train"][name].append(float(length))
            return asked, answers, None, turns, None, {}, None, []

        def training_step(self, *args: Any, **options: Any) -> Any:
            begin = time.perf_counter()
            loss = super().training_step(*args, **options)
            loss.item()  # waits for the GPU
            times.append(time.perf_counter() - begin)
            return loss

    def valid(prompts: list[Any], **_: Any) -> list[float]:
        return [float(place % 2) for place in range(len(prompts))]

    group, batch = preset.trl["num_generations"], preset.trl["per_device_train_batch_size"]
    passes = max(group // batch, 1)
    # Generation is left out, and so is what it needs; a drawn answer has no end, which would mask it.
    options = {name: value for name, value in preset.trl.items() if "vllm" not in name}
    options |= {"gradient_accumulation_steps": passes, "max_steps": 2, "mask_truncated_completions": False}
    options |= {"max_completion_length": length, "report_to": []}
    if not torch.cuda.is_available():
        options |= {"optim": "adamw_torch", "bf16": False}
    question = [[{"role": "user", "content": "?"}]] * 64
    data = Dataset.from_dict({"prompt": question, "index": range(64), "stratum": ["all"] * 64})
    lora = preset.training.lora
    with tempfile.TemporaryDirectory() as folder:
        trainer = Drawn(
            model=model,
            reward_funcs=[valid],
            args=grpo_arguments({**options, "output_dir": folder, "reward_weights": [1.0]}),
            train_dataset=data,
            processing_class=tokenizer,
            peft_config=None if lora is None else LoraConfig(task_type="CAUSAL_LM", **lora),
            resume=None,
            settings=preset.training,
            failed=[],
        )
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        trainer.train()
    peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    seconds = sum(times[passes:]) / passes
    whole = preset.trl.get("gradient_accumulation_steps", 1)
    return {
        "answers a pass": batch,
        "seconds a pass": round(seconds, 3),
        "seconds a step": round(seconds * whole, 1),
        "answer tokens a second": round(batch * length / seconds),
        "peak GiB": round(peak / 2**30, 1),
    }


def tiny(rehearse: bool) -> dict[str, Any]:
    """Valid rates and seconds of one stage of `tiny` on the GPU, if there is one, and on the CPU."""
    from bench import refill
    from infra.config.preset import load_preset
    from policy.checkpoints import resolve_model

    preset, rows = load_preset("micro" if rehearse else "tiny"), {}
    validation = preset.validation.draw(preset.task)
    ids = frozenset(instance.id for instance in validation)
    for device in ("cpu",) if rehearse else ("gpu", "cpu"):
        if device == "cpu":
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            refill.draw(preset, folder / "train.parquet", 51, ids)
            begin = time.perf_counter()
            before = refill.judged(preset, resolve_model(preset.model), validation, folder / "engine.log")
            middle = time.perf_counter()
            cost = refill.train(preset, folder / "stage", folder / "train.parquet", 51, preset.training)
            end = time.perf_counter()
            after = refill.judged(preset, str(folder / "stage" / "checkpoint"), validation, folder / "log")
        rows[device] = {
            "valid before, %": round(100 * sum(before) / len(before), 1),
            "valid after, %": round(100 * sum(after) / len(after), 1),
            "evaluation, s": round(middle - begin, 1),
            "training, s": round(end - middle, 1),
            "steps": cost["steps"],
            "seconds a step": round(cost["seconds"] / cost["steps"], 3),
        }
        print(device, rows[device], file=sys.stderr, flush=True)
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    return rows


def shapes(presets: list[str], lengths: list[int], rehearse: bool) -> list[dict[str, Any]]:
    """`shape_steps` of each preset, each in its own process."""
    rows = []
    for name in presets:
        command = [sys.executable, __file__, "--child", name, json.dumps(lengths), str(int(rehearse))]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        failed = [{"preset": name, "problem": f"exit code {done.returncode}"}]
        rows += failed if done.returncode else json.loads(done.stdout.splitlines()[-1])
    return rows


def refilled(rehearse: bool) -> dict[str, Any]:
    """The comparison of `bench/refill.py`."""
    from bench import refill

    with tempfile.TemporaryDirectory() as folder:
        name, seeds = ("micro", 2) if rehearse else ("tiny", 3)
        return refill.compare(name, seeds, 2.0, seeds, Path(folder))


def model(source: str) -> list[str]:
    """Warm start of a policy from a folder and two stages with it; the last lines of the commands."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        taught = str(Path(folder) / "taught")
        for arguments in (
            ["warmstart", "--preset", "smollm2-135m", "--model", source, "--output", taught],
            ["run", "smollm2-135m", "--name", "gpu", "--model", taught, "--stages", "2"],
        ):
            command = [sys.executable, "-m", "flows.cli", *arguments]
            environment = {**os.environ, "ENVWRIGHT_RUNS": str(Path(folder) / "runs")}
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
            lines += [*done.stdout.splitlines()[-8:], f"exit code {done.returncode}"]
    return lines


def written(rows: list[dict[str, Any]]) -> str:
    """Rows as a table in Markdown."""
    import pandas as pd

    from infra.markdown import table

    return table(pd.DataFrame(rows, dtype=object).fillna(""))


def main() -> None:
    """Run the parts and write what each of them gives."""
    if sys.argv[1:2] == ["--child"]:
        name, lengths, rehearse = sys.argv[2:]
        print(json.dumps(shape_steps(name, json.loads(lengths), bool(int(rehearse)))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("parts", nargs="*", help="tiny, shapes, refill, model", metavar="PART")
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    parser.add_argument("--model", help="folder of SmolLM2-135M-Instruct")
    parser.add_argument("--presets", nargs="+", help="of the shapes", metavar="NAME")
    parser.add_argument("--lengths", nargs="+", type=int, help="of the completions", metavar="TOKENS")
    parser.add_argument("--rehearse", action="store_true")
    arguments = parser.parse_args()
    small = arguments.rehearse
    arguments.presets = arguments.presets or (PRESETS[-1:] if small else PRESETS)
    arguments.lengths = arguments.lengths or ((16, 32) if small else LENGTHS)
    import torch

    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    results: dict[str, Any] = {"device": where, "torch": torch.__version__}
    print(results, flush=True)
    for part in arguments.parts or ["shapes", "tiny", "refill"]:
        begin = time.perf_counter()
        if part == "shapes":
            results[part] = shapes(arguments.presets, arguments.lengths, arguments.rehearse)
            print(written(results[part]))
        elif part == "tiny":
            results[part] = tiny(arguments.rehearse)
            print(written([{"device": device, **row} for device, row in results[part].items()]))
        elif part == "refill":
            from bench import refill

            results[part] = refilled(arguments.rehearse)
            print(refill.table(results[part]))
        else:
            results[part] = model(arguments.model)
            print(*results[part], sep="\n")
        print(f"{part}: {time.perf_counter() - begin:.0f} s\n", flush=True)
        arguments.out.write_text(json.dumps(results, indent=1))
    problems = {row.get("problem", "out of memory") for row in results.get("shapes", ())}
    if broken := problems - {"out of memory"}:
        sys.exit(f"shapes: {'; '.join(sorted(broken))}")


if __name__ == "__main__":
    main()
