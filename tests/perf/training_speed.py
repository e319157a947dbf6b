"""What envwright's GRPO costs beside a bare TRL script: the same model, data, options, seed and reward, each
in a process of its own.

The bare script is what a user of TRL writes: a reward function that judges one answer after the other,
`GRPOTrainer`, nothing else. Both draw the same answers and learn the same, so that their times are of the
same work."""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REPEATS, STEPS = 3, 24
OPTIONS = {
    "per_device_train_batch_size": 128,
    "num_generations": 8,
    "max_completion_length": 32,
    "learning_rate": 3e-4,
    "beta": 0.0,
    "loss_type": "dapo",
    "bf16": False,
    "gradient_checkpointing": False,
    "save_strategy": "no",
    "max_steps": STEPS,
}
"""Those of the tiny preset, without checkpoints of the trainer."""


def step_seconds() -> tuple[float, float, float]:
    """(seconds a step of ours, of the bare script, share of ours that rewards take): medians over processes
    that alternate."""
    from envgen.dataset import write_dataset
    from envgen.mapf.config import BoardsConfig, SizeConfig
    from envgen.mapf.prompts import PromptStyle
    from envgen.mapf.sampler import sample

    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "train.parquet"
        config = BoardsConfig(
            sizes={size: SizeConfig(data_ratio=0.25, hole_ratio=0.3, wait_ratio=0.5) for size in (3, 4, 5, 6)}
        )
        write_dataset(data, sample(config, 400, agents=2, seed=1)[0], PromptStyle.COMPACT, {})
        found: dict[str, list[dict]] = {"ours": [], "bare": []}
        for repeat in range(REPEATS):
            for which in ("ours", "bare") if repeat % 2 else ("bare", "ours"):
                done = subprocess.run(
                    [sys.executable, __file__, which, str(data), f"{folder}/{which}-{repeat}"],
                    check=True,
                    capture_output=True,
                    text=True,
                )
                found[which].append(json.loads(done.stdout.splitlines()[-1]))
    ours, bare = (
        statistics.median(run["seconds"] / run["steps"] for run in found[which]) for which in ("ours", "bare")
    )
    if [run["tokens"] for run in found["ours"]] != [run["tokens"] for run in found["bare"]]:
        raise SystemExit(
            "the two trainers did not draw the same answers, so that their times cannot be compared"
        )
    return ours, bare, statistics.median(run["rewards"] / run["seconds"] for run in found["ours"])


def _ours(data: Path, folder: Path) -> dict:
    from policy.checkpoints import resolve_model
    from policy.grpo import training
    from policy.grpo.progress import ProgressLines
    from policy.grpo.rewards import RewardWeights, reward_functions
    from policy.grpo.train_spec import TrainSpec

    spent, entries = [0.0], []

    def timed(family: Any, weights: RewardWeights) -> list:
        def wrap(function):
            def reward(**arguments):
                started = time.perf_counter()
                try:
                    return function(**arguments)
                finally:
                    spent[0] += time.perf_counter() - started

            reward.__name__ = function.__name__
            return reward

        return [wrap(function) for function in reward_functions(family, weights)]

    class Lines(ProgressLines):
        def on_log(self, args, state, control, logs=None, **kwargs):
            super().on_log(args, state, control, logs=logs, **kwargs)
            entries.append((time.perf_counter(), state.num_input_tokens_seen))

    training.reward_functions, training.ProgressLines = timed, Lines
    folder.mkdir()
    where = {"data": data, "output": folder, "work": folder / "work"}
    spec = TrainSpec(
        parent=resolve_model("tiny"), **where, style="compact", rewards=RewardWeights(), trl=OPTIONS, seed=3
    )
    training.train(spec)
    return _summary(entries[:STEPS]) | {"rewards": spent[0] * (STEPS - 1) / STEPS}


def _bare(data: Path, folder: Path) -> dict:
    import pyarrow.parquet as pq
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback, set_seed
    from trl import GRPOConfig, GRPOTrainer

    from envgen.mapf.rows import instance_of_row
    from envgen.mapf.verifier import verify
    from policy.checkpoints import resolve_model

    entries = []

    class Times(TrainerCallback):
        def on_log(self, args, state, control, **kwargs):
            entries.append((time.perf_counter(), state.num_input_tokens_seen))

    def valid_and_optimal(completions, instance, **_):
        verdicts = [
            verify(instance_of_row(row, "row"), answer[-1]["content"])
            for answer, row in zip(completions, instance, strict=True)
        ]
        return [verdict.valid + 0.5 * verdict.optimal for verdict in verdicts]

    set_seed(3)
    rows = [
        {"prompt": [{"role": "user", "content": row["prompt"]}], "instance": row}
        for row in pq.read_table(data).to_pylist()
    ]
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(resolve_model("tiny"), dtype="float32"),
        reward_funcs=valid_and_optimal,
        args=GRPOConfig(
            output_dir=str(folder),
            seed=3,
            temperature=1.0,
            top_p=1.0,
            top_k=0,
            use_cpu=True,
            report_to=[],
            logging_steps=1,
            disable_tqdm=True,
            **OPTIONS,
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(resolve_model("tiny"), padding_side="left"),
        callbacks=[Times()],
    )
    trainer.train()
    return _summary(entries[:STEPS])


def _summary(entries: list[tuple[float, float]]) -> dict:
    """From the end of the first step, which warms up, to the end of the last."""
    return {"steps": len(entries) - 1, "seconds": entries[-1][0] - entries[0][0], "tokens": entries[-1][1]}


if __name__ == "__main__":
    print(json.dumps({"ours": _ours, "bare": _bare}[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))))
