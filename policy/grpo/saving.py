"""What a training child does beside training: the canary's scores and the stage's checkpoint."""

from pathlib import Path
from typing import Any, NamedTuple

import torch
from peft import PeftModel
from pydantic import TypeAdapter
from transformers import TrainerCallback, TrainerState
from transformers.integrations.deepspeed import unset_hf_deepspeed_config

from envgen.dataset import read_dataset
from envgen.environment import Environment
from envgen.files import write_json
from policy.chat.transformers_model import load, token_logprobs
from policy.grpo.canary import TEXTS, Canary, Scores, ends
from policy.grpo.train_spec import TrainSpec

BEFORE = "canary-before.json"
"""In the work folder: a stage that is resumed has no weights left from before its first step."""


class CanaryTexts(NamedTuple):
    """Token sequences, and how many tokens at the end of each are the answer."""

    sequences: list[list[int]]
    answers: list[int]


def canary_texts(tokenizer: Any, family: Environment, data: Path, style: str) -> CanaryTexts:
    """The first training instances with their best answers as the policy reads and writes them."""
    sequences, answers = [], []
    for instance in read_dataset(data)[:TEXTS]:
        question = [{"role": "user", "content": family.prompt(instance, style)}]
        asked = tokenizer.apply_chat_template(question, tokenize=False, add_generation_prompt=True)
        prompt_ids = tokenizer(asked, add_special_tokens=False)["input_ids"]
        answer_ids = tokenizer(family.reference(instance), add_special_tokens=False)["input_ids"]
        sequences.append(prompt_ids + answer_ids)
        answers.append(len(answer_ids))
    return CanaryTexts(sequences, answers)


class ScoreBefore(TrainerCallback):
    """Keeps the canary's scores before the first step, of weights that lie where they are trained."""

    def __init__(self, trainer: Any, texts: CanaryTexts, work: Path) -> None:
        self._trainer, self._texts, self._work = trainer, texts, work

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Called by the trainer in every process; after a resume there is nothing to score."""
        if state.global_step == 0:
            scores = _scores(self._trainer, self._texts)
            if state.is_world_process_zero:
                write_json(self._work / BEFORE, scores)


def finished_canary(trainer: Any, texts: CanaryTexts, work: Path) -> Canary:
    """The canary under the trained weights. Every process takes part: the weights may be split over them."""
    path = work / BEFORE
    before = TypeAdapter(Scores).validate_json(path.read_bytes()) if path.is_file() else None
    coarse = trainer.args.bf16 or trainer.args.fp16 or next(trainer.model.parameters()).dtype != torch.float32
    return Canary(
        sequences=texts.sequences,
        answers=texts.answers,
        dtype="bfloat16" if coarse else "float32",
        before=before,
        after=_scores(trainer, texts),
    )


def _scores(trainer: Any, texts: CanaryTexts) -> Scores:
    model = trainer.model_wrapped
    training = model.training
    model.eval()
    with trainer.accelerator.autocast():
        # One text at a time: the weights, gradients and optimizer's state are still there.
        found = token_logprobs(model, texts.sequences, trainer.accelerator.device, at_once=1)
    model.train(training)
    return ends(found, texts.answers)


def save(trainer: Any, spec: TrainSpec) -> Path:
    """Save the trained policy into the work folder in Hugging Face layout, an adapter merged into its base.

    Every process takes part.
    """
    partial = spec.work / "checkpoint.partial"
    if spec.training.lora is None:
        trainer.save_model(str(partial))
    else:
        adapter = spec.work / "adapter"
        trainer.save_model(str(adapter))
        # Else ZeRO-3 would split these weights over processes that do not load them.
        unset_hf_deepspeed_config()
        if trainer.accelerator.is_main_process:
            merge_adapter(spec.parent, adapter, partial)
    if trainer.accelerator.is_main_process:
        (partial / "training_args.bin").unlink(missing_ok=True)  # a pickle of paths on this machine
    return partial


def merge_adapter(source: str, adapter: Path, output: Path) -> None:
    """Write a chat model with an adapter merged into it, and its tokenizer, to a folder.

    In float32: in bfloat16 a small change of a weight would be rounded away.
    """
    model, tokenizer = load(source, "float32")
    PeftModel.from_pretrained(model, str(adapter)).merge_and_unload().save_pretrained(str(output))
    tokenizer.save_pretrained(str(output))
