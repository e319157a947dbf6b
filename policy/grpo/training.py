"""One stage of GRPO in a child process: `python -m policy.grpo.training SPEC.json`.

GRPO is a configured use of TRL's trainer; `trl` in the spec holds its own option names. The child writes
complete trainer checkpoints while it runs and resumes from the last one after a crash. Under
`accelerate launch` it runs in several processes, of which the first writes what the stage keeps.
"""

import gc

gc.disable()  # The imports make a million objects and drop none; collecting took a fifth of their time.
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

sys.modules.setdefault("mlflow", None)  # type: ignore[arg-type]  # TRL imports it where it is installed.
import pyarrow as pa
import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import set_seed

from envgen.dataset import read_dataset, read_table, write_table
from envgen.environment import Environment, FaultCount
from envgen.files import move_directory
from envgen.processes import end_with_parent, free_port
from envgen.rows import instance_schema
from policy.chat.tokenizer import opening
from policy.chat.transformers_model import load
from policy.child import PROBLEM, is_out_of_memory, tell
from policy.grpo.check import grpo_arguments
from policy.grpo.launch import divergence_advice, memory_advice
from policy.grpo.optimizer import CarryOptimizer
from policy.grpo.rewards import reward_functions
from policy.grpo.saving import Budget, StageWatch, save
from policy.grpo.train_log import SERIES, TRAIN_LOG_SCHEMA
from policy.grpo.train_spec import CHECKPOINT, TRAIN_LOG, TrainSpec, last_checkpoint, note_resume
from policy.grpo.trainer import Trainer

gc.enable()
if sys.modules["mlflow"] is None:
    del sys.modules["mlflow"]


def train(spec: TrainSpec) -> None:
    """Train in each process; then the first puts checkpoint and log under their names in `spec.output`."""
    # First: from here on transformers knows how the weights are to be split while they are loaded.
    fixed = {"report_to": [], "output_dir": str(spec.work), "seed": spec.seed}
    arguments = grpo_arguments({**spec.trl, **fixed, "reward_weights": [*spec.rewards.weights.values()]})
    set_seed(spec.seed)
    model, tokenizer = load(spec.parent, spec.training.dtype, spec.chat_template_kwargs)
    dtype = model.dtype
    if arguments.use_vllm:  # it knows the ends of the checkpoint's own files only
        arguments.generation_kwargs = {"stop_token_ids": model.generation_config.eos_token_id}
        # TRL takes 29500 where it is free, and two trainings that start together take the same.
        os.environ.setdefault("MASTER_PORT", str(free_port()))
        if not torch.cuda.is_available():
            keep_weights_unpacked()
    environment, lora, resume = spec.environment.load(), spec.training.lora, last_checkpoint(spec.work)
    carry = [CarryOptimizer(Path(spec.parent))] if spec.training.carry_optimizer else []
    faults, failed = FaultCount(environment.space), list[dict[str, str]]()
    trainer = Trainer(
        model=model,
        reward_funcs=reward_functions(
            environment, spec.rewards, faults, read_dataset(spec.data), failed, opening(tokenizer)
        ),
        failed=failed,
        args=arguments,
        train_dataset=training_rows(environment, spec.data),
        resume=resume,
        settings=spec.training,
        processing_class=tokenizer,
        callbacks=[StageWatch(), Budget(spec.training), *carry],
        peft_config=None if lora is None else LoraConfig(task_type="CAUSAL_LM", **lora),
    )
    if trainer.accelerator.is_main_process:
        print(f"resuming from {resume.name}" if resume else "starting from the first step", flush=True)
        note_resume(spec.work, resume)
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    faults.add([], last=True)
    partial = save(trainer, tokenizer, environment, spec, dtype)
    if trainer.accelerator.is_main_process:
        write_table(spec.output / TRAIN_LOG, training_log(trainer.state.log_history))
        move_directory(partial, spec.output / CHECKPOINT)
    trainer.accelerator.wait_for_everyone()


def keep_weights_unpacked() -> None:
    """Let vLLM on CPUs multiply by the weights themselves. With kernels of oneDNN or AMX it makes packed
    copies, which the weights of later steps do not reach."""

    def dispatch(layer: Any, remove_weight: bool) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    layers = import_module("vllm.model_executor.layers.utils")
    layers.dispatch_cpu_unquantized_gemm = dispatch  # type: ignore[attr-defined]


def training_rows(environment: Environment, data: Path) -> Dataset:
    """Prompts as conversations, each with the index of its instance and its stratum."""
    table = read_table(data, instance_schema(environment))
    prompts = [[{"role": "user", "content": prompt}] for prompt in table["prompt"].to_pylist()]
    strata = table["stratum"].to_pylist()
    return Dataset.from_dict({"prompt": prompts, "index": range(len(prompts)), "stratum": strata})


def training_log(history: list[dict[str, Any]]) -> pa.Table:
    """Return the trainer's log as a table: one row for each step that generated completions."""
    keys = SERIES | {"seconds": "step_time"}
    columns = {name: keys.get(name, name) for name in map(str, TRAIN_LOG_SCHEMA.names)}
    rows = [{name: entry.get(key) for name, key in columns.items()} for entry in history if "strata" in entry]
    return pa.Table.from_pylist(rows, schema=TRAIN_LOG_SCHEMA)


def main(spec: TrainSpec) -> None:
    """Train; report an error that has a remedy to the parent before it ends this process."""
    try:
        train(spec)
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if isinstance(error, FloatingPointError):
            tell({PROBLEM: divergence_advice(reason, spec.trl, last_checkpoint(spec.work))})
        elif is_out_of_memory(error):
            tell({PROBLEM: memory_advice(reason, spec.trl, last_checkpoint(spec.work))})
        raise


if __name__ == "__main__":
    # A launcher puts its processes into sessions of their own, which do not end with it.
    end_with_parent()
    if not torch.cuda.is_available():
        # Several processes would each call their device cpu:0, to which PyTorch loads no optimizer state.
        os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
    main(TrainSpec.model_validate_json(Path(sys.argv[1]).read_text()))
