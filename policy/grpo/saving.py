"""What a training child tells while it trains, and the checkpoint that it writes afterwards."""

import json
import time
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from peft import PeftModel
from transformers import TrainerCallback, TrainerState

from envgen.dataset import read_dataset
from envgen.environment import Environment
from envgen.files import write_json
from policy.chat.tokenizer import chat_tokens
from policy.chat.transformers_model import load
from policy.child import WARNING, tell
from policy.grpo.optimizer import save_optimizer
from policy.grpo.train_spec import TrainingSettings, TrainSpec, mark_complete

SCORED = 8
"""Instances whose reference answers are scored before and after an adapter is merged."""
TOLERANCE = 0.2
"""Mean difference in nats a token above which a warning is logged. Rounding gives 1e-7 in float32 and about
0.003 in bfloat16 for a policy of a million weights."""
Scored = list[tuple[list[int], list[float]]]
"""Token ids, and the log-probability, in nats, of each of the last ones given those before."""


class StageWatch(TrainerCallback):
    """Print `progress {json}` with step, steps, the numbers that the trainer logs, also by stratum, and the
    steps, tokens and seconds of this process. FloatingPointError before a step is saved whose loss or
    gradient norm is not finite, but for gradients in fp16, whose scaler skips the step."""

    def __init__(self) -> None:
        self._started, self._first_step, self._first_tokens = time.monotonic(), 0, 0.0

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Called by the trainer before its first step, or the first after a checkpoint."""
        self._started, self._first_step = time.monotonic(), state.global_step
        self._first_tokens = state.num_input_tokens_seen

    def on_log(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Called by the trainer at every log entry; an error follows in every process."""
        logs = kwargs.get("logs") or {}
        if state.is_world_process_zero and logs and "train_runtime" not in logs:
            numbers = {key: value for key, value in logs.items() if isinstance(value, int | float)}
            here = {
                "steps_here": state.global_step - self._first_step,
                "tokens_here": state.num_input_tokens_seen - self._first_tokens,
                "elapsed": round(time.monotonic() - self._started, 2),
            }
            strata = logs.get("strata", [])
            tell({"step": state.global_step, "steps": state.max_steps, "strata": strata, **here, **numbers})
        for name in ("loss",) if args.fp16 else ("loss", "grad_norm"):
            if not isfinite(value := logs.get(name, 0.0)):
                raise FloatingPointError(f"{name} is {value} in step {state.global_step}")

    def on_save(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Called by the trainer once this process has written its part."""
        PartialState().wait_for_everyone()
        if state.is_world_process_zero:
            mark_complete(Path(args.output_dir) / f"checkpoint-{state.global_step}")


class Budget(TrainerCallback):
    """End training when a stage has generated its tokens, or taken its time."""

    def __init__(self, settings: TrainingSettings) -> None:
        self._settings = settings

    def on_log(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Called by the trainer at every log entry; what a process before this one has logged counts too."""
        tokens, seconds = (
            sum(entry.get(name, 0) for entry in state.log_history)
            for name in ("completion_tokens", "step_time")
        )
        if _agreed(self._settings.is_spent(tokens, seconds)):
            control.should_training_stop = True


class SaveByTime(TrainerCallback):
    """Save a checkpoint after the first step that ends later than `minutes` after the last one, and `between`
    generations: a checkpoint keeps no answers."""

    def __init__(self, minutes: float, between: Callable[[], bool]) -> None:
        self._minutes, self._between, self._saved = minutes, between, time.monotonic()

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Called by the trainer after every step."""
        if _agreed(self._between() and time.monotonic() - self._saved >= 60 * self._minutes):
            control.should_save = True

    def on_save(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Called by the trainer once a checkpoint is complete."""
        self._saved = time.monotonic()


def _agreed(decision: bool) -> bool:
    """Return the decision of the first process in each: their clocks differ, and all of them save or end."""
    return broadcast_object_list([decision])[0]


def save(trainer: Any, tokenizer: Any, environment: Environment, spec: TrainSpec, dtype: torch.dtype) -> Path:
    """Save the trained policy into the work folder in Hugging Face layout, an adapter merged into its base.
    Every process takes part. `dtype` is of the weights, as they were loaded for training."""
    partial = spec.work / "checkpoint.partial"
    if trainer.is_fsdp_enabled:  # else every process would write its part
        trainer.accelerator.state.fsdp_plugin.set_state_dict_type("FULL_STATE_DICT")
    if spec.training.carry_optimizer:
        save_optimizer(trainer, partial)
    if spec.training.lora is None and trainer.is_fsdp_enabled:
        _save_split(trainer, tokenizer, partial, dtype)
    elif spec.training.lora is None:
        trainer.save_model(str(partial))
    else:
        scored = score_references(trainer, tokenizer, environment, spec)
        adapter = spec.work / "adapter"
        trainer.save_model(str(adapter))
        if trainer.accelerator.is_main_process:
            merged = merge_adapter(spec.parent, adapter, partial, spec.chat_template_kwargs, dtype)
            check_merged(merged, scored)
    if trainer.accelerator.is_main_process:
        (partial / "training_args.bin").unlink(missing_ok=True)  # a pickle of paths on this machine
    return partial


def _save_split(trainer: Any, tokenizer: Any, checkpoint: Path, dtype: torch.dtype) -> None:
    """Put the weights of all processes together: FSDP2 trains in float32, and takes tied weights for two."""
    weights = trainer.accelerator.get_state_dict(trainer.model)
    if trainer.accelerator.is_main_process:
        model = trainer.model
        tied = (model._tied_weights_keys or ()) if model.config.tie_word_embeddings else ()
        weights = {name: part.to(dtype) for name, part in weights.items() if name not in tied}
        model.save_pretrained(str(checkpoint), state_dict=weights)
        tokenizer.save_pretrained(str(checkpoint))
        config = json.loads((checkpoint / "config.json").read_bytes())
        write_json(checkpoint / "config.json", config | {"dtype": str(dtype).removeprefix("torch.")})


def merge_adapter(
    source: str, adapter: Path, output: Path, template_kwargs: dict[str, Any], dtype: torch.dtype
) -> Any:
    """Write a chat model with an adapter merged into it in float32, then rounded to `dtype`, and its
    tokenizer, to a folder; return the model."""
    model, tokenizer = load(source, "float32", template_kwargs)
    merged: Any = PeftModel.from_pretrained(model, str(adapter)).merge_and_unload().to(dtype)
    merged.save_pretrained(str(output))
    tokenizer.save_pretrained(str(output))
    return merged


def score_references(trainer: Any, tokenizer: Any, environment: Environment, spec: TrainSpec) -> Scored:
    """Score the reference answers of the first training instances. Every process takes part."""
    instances = read_dataset(spec.data)[:SCORED]
    prompts = chat_tokens(tokenizer, [environment.prompt(instance, spec.style) for instance in instances])
    references = [environment.reference(instance) for instance in instances]
    answers = tokenizer(references, add_special_tokens=False)["input_ids"]
    model = trainer.model_wrapped.eval()
    with trainer.accelerator.autocast():
        return [
            (prompt + answer, token_logprobs(model, prompt + answer)[-len(answer) :])
            for prompt, answer in zip(prompts, answers, strict=True)
        ]


def check_merged(model: Any, scored: Scored) -> None:
    """Print how far the log-probabilities of a merged model are from the trainer's, and warn if too far."""
    differences = [
        abs(ours - theirs)
        for ids, logprobs in scored
        for ours, theirs in zip(token_logprobs(model.eval(), ids)[-len(logprobs) :], logprobs, strict=True)
    ]
    off = sum(differences) / len(differences)
    text = f"log-probabilities of the merged adapter and of the trainer differ by {off:.2g} nats a token"
    print(text, flush=True)
    if off > TOLERANCE:
        tell({WARNING: f"{text} (expected: at most {TOLERANCE}); compare training.dtype and training.lora"})


@torch.no_grad()
def token_logprobs(model: Any, ids: list[int]) -> list[float]:
    """The log-probability, in nats, of each token after the first given those before, in float32."""
    tokens = torch.tensor([ids], device=next(model.parameters()).device)
    logprobs = model(input_ids=tokens).logits[0, :-1].float().log_softmax(-1)
    return logprobs.gather(1, tokens[0, 1:, None])[:, 0].tolist()
