"""One stage of GRPO in a child process: `python -m policy.grpo.training SPEC.json`.

GRPO is a configured use of TRL's trainer; `trl` in the spec holds its own option names. The child writes
complete trainer checkpoints while it runs and resumes from the last one after a crash. Under
`accelerate launch` it runs in several processes, of which the first writes what the stage keeps.
"""

import gc

gc.disable()  # The imports make a million objects and drop none; collecting took a fifth of their time.
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.modules.setdefault("mlflow", None)  # type: ignore[arg-type]  # TRL imports it where it is installed.
import numpy as np
import pyarrow as pa
import torch
from datasets import Dataset
from peft import LoraConfig
from torch.utils.data import Sampler
from transformers import PreTrainedModel, set_seed
from trl import GRPOTrainer

from envgen.dataset import read_dataset, read_table, write_table
from envgen.environment import Environment, FaultCount
from envgen.files import move_directory
from envgen.processes import end_with_parent
from envgen.rows import instance_schema
from policy.chat.transformers_model import load
from policy.child import OUT_OF_MEMORY, is_out_of_memory, tell
from policy.cpu import can_share, generate_shared, log_probabilities, pack
from policy.grpo.check import grpo_arguments
from policy.grpo.rewards import reward_functions
from policy.grpo.saving import Budget, ProgressLines, save
from policy.grpo.train_log import STRATUM_METRICS, TRAIN_LOG_SCHEMA, stratum_metrics, without_variance
from policy.grpo.train_spec import (
    CHECKPOINT,
    TRAIN_LOG,
    TrainSpec,
    last_checkpoint,
    note_resume,
    trainer_state,
)

gc.enable()
if sys.modules["mlflow"] is None:
    del sys.modules["mlflow"]


class Trainer(GRPOTrainer):
    """TRL's trainer, which also logs by stratum: advantages, valid answers, groups without advantages.

    On a CPU it computes each prompt once for all of its answers, and no gradient for answers whose loss has
    none. Where it is to go on from a checkpoint, `resume`, it draws the data in the order of an uninterrupted
    training.
    """

    def __init__(self, *args: Any, resume: Path | None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._epochs_done = int(trainer_state(resume)["epoch"]) if resume else 0
        # Processes that pass through the model a different number of times would wait for each other.
        alone = self.accelerator.device.type == "cpu" and self.accelerator.num_processes == 1
        model = self.model if isinstance(self.model, PreTrainedModel) else None
        self._shares = alone and not self.aux_loss_enabled and model is not None and can_share(model)
        if self._shares:
            setattr(self.model, "generate", partial(generate_shared, self.model))  # noqa: B010
        self._advantages: torch.Tensor | None = None

    def _get_train_sampler(self, dataset: Dataset | None = None) -> Sampler:
        sampler = super()._get_train_sampler(dataset)
        # Each pass over the data draws an order from a generator that no checkpoint of the trainer keeps.
        for _ in range(self._epochs_done):
            next(iter(sampler), None)
        return sampler

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        # With these two the loss of an answer has more terms than its advantage.
        self._advantages = None if self.beta or self._entropy_bonus_enabled else inputs["advantages"]
        try:
            return super()._compute_loss(model, inputs)
        finally:
            self._advantages = None

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, *args: Any, **options: Any
    ) -> Any:
        if not self._shares:
            return super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, *args, **options
            )
        answer_length = args[0] if args else options["logits_to_keep"]
        learns = torch.ones(len(input_ids), dtype=torch.bool)
        if self._advantages is not None:
            learns = self._advantages != 0
        parts = [rows for rows in (learns.nonzero()[:, 0], (~learns).nonzero()[:, 0]) if len(rows)]
        results = []
        # The first part has a gradient even where no answer learns: a loss without one cannot be passed back.
        for number, rows in enumerate(parts):
            packed = pack(input_ids[rows], attention_mask[rows], answer_length)
            with torch.set_grad_enabled(torch.is_grad_enabled() and number == 0), self.accelerator.autocast():
                results.append(log_probabilities(model, packed))
        order = torch.argsort(torch.cat(parts))
        log_probs, entropies = (
            torch.cat(values)[order] if values[0] is not None else None
            for values in zip(*results, strict=True)
        )
        return log_probs, entropies, None

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        # TRL has gathered these, as a group may lie across processes.
        advantages, valid = (
            np.array(list(values), dtype=np.float64)
            for values in (self._logs["advantages"], self._logs["rewards"]["valid"])
        )
        strata, metrics = list(self._logs["extra"]["stratum"]), self._metrics["train"]
        group = int(self.num_generations or 1)
        for entry in stratum_metrics(strata, advantages, valid, group):
            for name in STRATUM_METRICS:
                metrics[f"strata/{entry['stratum']}/{name}"].append(entry[name])
        # TRL takes the rounding of a mean of equal rewards, as of eight times 0.3, for a difference.
        metrics["frac_reward_zero_std"][-1] = float(without_variance(advantages, group).mean())
        return output


def train(spec: TrainSpec) -> None:
    """Train, then put checkpoint and training log under their final names in `spec.output`.

    Runs once in each training process.
    """
    # First: from here on transformers knows how the weights are to be split while they are loaded.
    arguments = _arguments(spec)
    set_seed(spec.seed)
    model, tokenizer = load(spec.parent, spec.training.dtype)
    environment, lora, resume = spec.environment.load(), spec.training.lora, last_checkpoint(spec.work)
    faults = FaultCount(environment.space)
    trainer = Trainer(
        model=model,
        reward_funcs=reward_functions(environment, spec.rewards, faults, read_dataset(spec.data)),
        args=arguments,
        train_dataset=training_rows(environment, spec.data),
        resume=resume,
        processing_class=tokenizer,
        callbacks=[ProgressLines(), Budget(spec.training)],
        peft_config=None if lora is None else LoraConfig(task_type="CAUSAL_LM", **lora),
    )
    if trainer.accelerator.is_main_process:
        print(f"resuming from {resume.name}" if resume else "starting from the first step", flush=True)
        note_resume(spec.work, resume)
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    faults.add([], last=True)
    partial = save(trainer, tokenizer, environment, spec)
    if trainer.accelerator.is_main_process:
        args = trainer.args
        passes = args.gradient_accumulation_steps * trainer.accelerator.num_processes
        log = training_log(trainer.state.log_history, environment.space.names, args.train_batch_size * passes)
        write_table(spec.output / TRAIN_LOG, log)
        move_directory(partial, spec.output / CHECKPOINT)
    trainer.accelerator.wait_for_everyone()


def training_rows(environment: Environment, data: Path) -> Dataset:
    """Prompts as conversations, each with the index of its instance."""
    table = read_table(data, instance_schema(environment))
    prompts = [[{"role": "user", "content": prompt}] for prompt in table["prompt"].to_pylist()]
    return Dataset.from_dict({"prompt": prompts, "index": range(len(prompts))})


def training_log(
    history: list[dict[str, Any]], strata: tuple[str, ...], completions_per_step: int
) -> pa.Table:
    """TRL's log as a table: one row for each step that generated completions."""
    rows = [
        {
            "step": entry["step"],
            "reward": entry["reward"],
            "valid": entry["rewards/valid/mean"],
            "optimal": entry["rewards/optimal/mean"],
            "zero_variance": entry["frac_reward_zero_std"],
            "entropy": entry.get("entropy"),
            "clipped": entry["completions/clipped_ratio"],
            "mismatch": entry.get("sampling/sampling_logp_difference/mean"),
            "mismatch_max": entry.get("sampling/sampling_logp_difference/max"),
            "loss": entry["loss"],
            "completion_tokens": round(entry["completions/mean_length"] * completions_per_step),
            "seconds": entry["step_time"],
            "strata": _strata(entry, strata),
        }
        for entry in history
        if "reward" in entry
    ]
    return pa.Table.from_pylist(rows, schema=TRAIN_LOG_SCHEMA)


def _strata(entry: dict[str, Any], strata: tuple[str, ...]) -> list[dict[str, Any]]:
    """The metrics of each stratum that had answers."""
    return [
        {"stratum": stratum, **{name: entry[f"strata/{stratum}/{name}"] for name in STRATUM_METRICS}}
        for stratum in strata
        if f"strata/{stratum}/answers" in entry
    ]


def _arguments(spec: TrainSpec) -> Any:
    options = {
        **spec.trl,
        "report_to": [],
        "output_dir": str(spec.work),
        "seed": spec.seed,
        "reward_weights": list(spec.rewards.weights.values()),
    }
    return grpo_arguments(options)


def main(spec: TrainSpec) -> None:
    """Train; if memory runs out, tell the parent before the error ends this process."""
    try:
        train(spec)
    except Exception as error:
        if is_out_of_memory(error):
            tell({OUT_OF_MEMORY: (str(error).strip() or type(error).__name__).splitlines()[0]})
        raise


if __name__ == "__main__":
    # A launcher puts its processes into sessions of their own, which do not end with it.
    end_with_parent()
    if not torch.cuda.is_available():
        # Several processes would each call their device cpu:0, to which PyTorch loads no optimizer state.
        os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
    main(TrainSpec.model_validate_json(Path(sys.argv[1]).read_text()))
