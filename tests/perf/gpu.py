"""What a GPU makes of envwright, in one go: `python tests/perf/gpu.py [--rehearse] [--only
tiny,step,engine,start]`.

    tiny    the preset tiny, end to end, on the GPU step    GRPO steps of a randomly initialised model with
    Qwen3-4B's shape (its shape, not its weights) under the preset qwen3-4b, at 4,000 and 8,000 answer tokens:
    peak memory beside the estimate, tokens/s, share of generation, model FLOPs utilisation engine  answers of
    that model: vLLM where it is installed, else transformers with continuous batching and in batches start
    a base policy of the tiny preset trained with more boards and steps, beside the shipped one

Results go to tests/perf/results/NAME.json with the hardware named, after each part. `--rehearse` runs the
same code with a small shape on whatever there is, also a CPU, and says so in its results."""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gpu_step import now, random_model

from infra.config.versions import library_versions

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results"
PACKAGES = ("envwright", "torch", "transformers", "trl", "vllm", "bitsandbytes", "liger-kernel", "accelerate")


def main() -> None:
    """Run the parts and write the results after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rehearse", action="store_true", help="a small shape and a few steps, on a CPU too")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas between them")
    parser.add_argument("--out", type=Path, help="file of the results; named after the hardware if left out")
    arguments = parser.parse_args()
    found: dict[str, Any] = {
        "rehearsal": arguments.rehearse,
        "hardware": hardware(),
        "versions": library_versions(PACKAGES),
    }
    name = f"rehearsal-{found['hardware']['name']}" if arguments.rehearse else found["hardware"]["name"]
    out = arguments.out or RESULTS / f"{name.lower().replace(' ', '-')}.json"
    for part in arguments.only.split(","):
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            try:
                found[part] = PARTS[part](Path(folder), arguments.rehearse)
            except Exception as error:  # a part that fails must not cost the others
                found[part] = {"failed": f"{type(error).__name__}: {error}"[:2000]}
        found[part]["wall_seconds"] = round(time.perf_counter() - started, 1)
        print(part, json.dumps(found[part], indent=1), flush=True)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(found, indent=1) + "\n")
    print(f"results: {out}")


def hardware() -> dict[str, Any]:
    """The GPU, or the CPU where there is none."""
    import psutil
    import torch

    memory = {"cpu_cores": os.cpu_count(), "memory_gib": round(psutil.virtual_memory().total / 2**30, 1)}
    if not torch.cuda.is_available():
        return {"name": f"cpu {platform.machine()}", **memory}
    device = torch.cuda.get_device_properties(0)
    return {
        "name": device.name,
        "gpus": torch.cuda.device_count(),
        "gpu_memory_gib": round(device.total_memory / 2**30, 1),
        **memory,
    }


def tiny(folder: Path, rehearse: bool) -> dict[str, Any]:
    """The preset tiny from the command line, as a user runs it."""
    preset = "micro" if rehearse else "tiny"
    environment = {
        **os.environ,
        "ENVWRIGHT_RUNS": str(folder / "runs"),
        "PREFECT_HOME": str(folder / "prefect"),
        "PYTHONPATH": str(ROOT),
    }
    started = time.perf_counter()
    _run([sys.executable, "-m", "flows.cli", "run", preset, "--name", "gpu"], environment)
    from infra.runs.results import CurriculumResults

    results = CurriculumResults.model_validate_json((folder / "runs" / "gpu" / "results.json").read_bytes())
    rates = [
        {
            "valid": str(stage.breakdown.overall.valid_rate),
            "optimal": str(stage.breakdown.overall.optimal_rate),
        }
        for stage in results.stages
    ]
    return {"preset": preset, "seconds": round(time.perf_counter() - started, 1), "stages": rates}


def step(folder: Path, rehearse: bool) -> dict[str, Any]:
    """GRPO steps in a process of their own for each length: peak memory counts from a fresh start."""
    model = random_model(folder / "model", rehearse)
    found = {}
    for length in (24, 48) if rehearse else (4000, 8000):
        output = folder / f"{length}.json"
        script = str(Path(__file__).with_name("gpu_step.py"))
        command = [
            sys.executable,
            script,
            str(model),
            str(folder / str(length)),
            str(length),
            str(output),
            *["--rehearse"] * rehearse,
        ]
        _run(command, {**os.environ, "PYTHONPATH": str(ROOT)})
        found[f"{length} answer tokens"] = json.loads(output.read_text())
    return found


def engine(folder: Path, rehearse: bool) -> dict[str, Any]:
    """Tokens a second of the engines that are here, greedy, on prompts of the validation kind."""
    from importlib.util import find_spec

    from envgen.family import Source
    from envgen.mapf.prompts import PromptStyle, prompt
    from envgen.sampling import sample
    from infra.config.preset import load_preset
    from policy.chat.contract import Sampling, ask
    from policy.chat.engine import EngineChatModel, EngineConfig

    model = random_model(folder / "model", rehearse)
    count, length = (8, 16) if rehearse else (256, 2048)
    preset = load_preset("qwen3-4b")
    boards = sample(preset.task, preset.default_config, count, Source(1))[0]
    asked = [ask(prompt(instance.problem, PromptStyle.BOARD)) for instance in boards]
    found: dict[str, Any] = {"prompts": count, "answer_tokens": length}
    for backend in ("transformers", *(["vllm"] if find_spec("vllm") else [])):
        chat = EngineChatModel(
            str(model),
            EngineConfig(backend=backend, batch_size=64, dtype="bfloat16"),
            folder / f"{backend}.log",
        )
        try:
            chat.complete(asked[:2], Sampling(max_tokens=8))
            started = time.perf_counter()
            tokens = sum(one.completion_tokens for one in chat.complete(asked, Sampling(max_tokens=length)))
            found[backend] = {"tokens_per_second": round(tokens / (time.perf_counter() - started), 1)}
        finally:
            chat.close()
    if "vllm" not in found:
        found["transformers continuous batching"] = continuous_batching(
            model, [conversation[0].content for conversation in asked], length
        )
    return found


def continuous_batching(model: Path, texts: list[str], length: int) -> dict[str, Any]:
    """The same prompts through `generate_batch` of transformers."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

    tokenizer = AutoTokenizer.from_pretrained(model)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        return {"skipped": "needs a GPU"}
    loaded = (
        AutoModelForCausalLM.from_pretrained(model, dtype="bfloat16", attn_implementation="sdpa")
        .to(device)
        .eval()
    )
    rows = [tokenizer(text)["input_ids"] for text in texts]
    options = GenerationConfig(
        max_new_tokens=length,
        do_sample=False,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    started = now()
    done = loaded.generate_batch(inputs=rows, generation_config=options)
    tokens = sum(len(one.generated_tokens) for one in done.values())
    return {"tokens_per_second": round(tokens / (now() - started), 1)}


def start(folder: Path, rehearse: bool) -> dict[str, Any]:
    """A base policy with four times the boards and steps, and both policies on the tiny preset's validation
    set."""
    from infra.config.preset import load_preset
    from infra.runs.data import validation_instances
    from policy.checkpoints import resolve_model
    from policy.evaluation import gains

    # Ten times the batches of the shipped policy.
    steps = 4 if rehearse else 50_000
    made = _trained_here(folder, steps, rehearse)
    preset = load_preset("micro" if rehearse else "tiny")
    instances = validation_instances(preset)
    answered = {
        name: _answered(source, preset, instances, folder / f"{name}.log")
        for name, source in (("shipped", resolve_model("tiny")), ("trained here", str(made)))
    }
    valid, optimal = gains(answered["shipped"], answered["trained here"])
    rates = {
        name: round(sum(one.verdict.valid for one in rollouts) / len(rollouts), 4)
        for name, rollouts in answered.items()
    }
    return {
        "steps": steps,
        "instances": len(instances),
        "valid": rates,
        "gain_valid": str(valid),
        "gain_optimal": str(optimal),
    }


def _trained_here(folder: Path, steps: int, rehearse: bool) -> Path:
    """The base policy that `envwright bootstrap` makes in so many steps."""
    small = ["warmup_steps=1", "save_steps=4", "hidden_size=32", "layers=2", "batch_size=16"]
    small.append("design_batch_size=8")
    environment = {
        **os.environ,
        "ENVWRIGHT_RUNS": str(folder / "runs"),
        "PREFECT_HOME": str(folder / "prefect"),
        "PYTHONPATH": str(ROOT),
    }
    made = folder / "start"
    given = [f"steps={steps}", *(small if rehearse else ["save_steps=5000"])]
    settings = [part for setting in given for part in ("--set", setting)]
    _run([sys.executable, "-m", "flows.cli", "bootstrap", "-o", str(made), *settings], environment)
    return made


def _answered(source: str, preset: Any, instances: list[Any], log: Path) -> list[Any]:
    """The rollouts of a policy on these instances, greedily."""
    from envgen.mapf.prompts import PromptStyle
    from policy.chat.contract import Sampling
    from policy.chat.engine import EngineChatModel, EngineConfig
    from policy.evaluation import evaluate

    chat = EngineChatModel(source, EngineConfig(batch_size=128, dtype="float32"), log)
    try:
        sampling = Sampling(max_tokens=preset.max_answer_tokens)
        return evaluate(chat, preset.task, instances, PromptStyle.COMPACT, sampling)
    finally:
        chat.close()


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(command[1:5])} ended with exit code {done.returncode}:"
            f" {(done.stdout + done.stderr)[-1500:]}"
        )


PARTS = {"tiny": tiny, "step": step, "engine": engine, "start": start}

if __name__ == "__main__":
    main()
