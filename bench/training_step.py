"""Seconds of a GRPO step: envwright's trainer against a bare TRL script with the same options and seed.

Both train the policy of `tiny` on its first training data, each in its own process:
`python bench/training_step.py [--steps 24]`.
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import refill
from infra.config.preset import load_preset
from policy.checkpoints import resolve_model
from policy.grpo.train_log import read_train_log
from policy.grpo.train_spec import TRAIN_LOG


def options(steps: int) -> dict[str, Any]:
    """Options of the preset `tiny` for a training of `steps` optimizer steps."""
    return {**load_preset("tiny").trl, "save_strategy": "no", "max_steps": steps}


def envwright_steps(folder: Path, steps: int) -> list[float]:
    """Seconds of each step of envwright's training process."""
    preset, output = load_preset("tiny"), folder / "envwright"
    refill.train(preset, output, folder / "train.parquet", 3, preset.training, max_steps=steps)
    return read_train_log(output / TRAIN_LOG)["seconds"]


def bare_steps(folder: Path, steps: int) -> list[float]:
    """Seconds of each step of a bare TRL script, without the first, which includes the start-up."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback, set_seed
    from trl import GRPOConfig, GRPOTrainer

    from envgen.dataset import read_dataset

    preset, times = load_preset("tiny"), []
    instances = read_dataset(folder / "train.parquet")

    class Clock(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            times.append(time.perf_counter())

    def reward(completions: list, index: list[int], **_: Any) -> list[float]:
        texts = [completion[-1]["content"] for completion in completions]
        verdicts = preset.task.judge([instances[number] for number in index], texts)
        return [preset.rewards.weights["valid"] * verdict.valid for verdict in verdicts]

    set_seed(3)
    prompts = [preset.task.prompt(instance, preset.prompt_style) for instance in instances]
    rows = [{"prompt": [{"role": "user", "content": prompt}], "index": n} for n, prompt in enumerate(prompts)]
    locked = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "use_cpu": True, "report_to": [], "seed": 3}
    model = resolve_model("tiny")
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(model, dtype="float32"),
        reward_funcs=reward,
        args=GRPOConfig(output_dir=str(folder / "bare"), disable_tqdm=True, **locked, **options(steps)),
        train_dataset=Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(model, padding_side="left"),
        callbacks=[Clock()],
    )
    trainer.train()
    return [after - before for before, after in itertools.pairwise(times)]


def main() -> None:
    """Run both in alternation and print the median seconds of a step and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--bare", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        print(json.dumps(bare_steps(arguments.bare, arguments.steps)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        refill.draw(load_preset("tiny"), folder / "train.parquet", 1, frozenset())
        ours = statistics.median(envwright_steps(folder, arguments.steps)[1:])
        command = [sys.executable, __file__, "--steps", str(arguments.steps), "--bare", name]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        bare = statistics.median(json.loads(lines[-1]))
    print(f"envwright {ours:.2f} s a step, bare TRL {bare:.2f} s, ratio {bare / ours:.2f}")


if __name__ == "__main__":
    main()
