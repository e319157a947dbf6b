"""What a training child does beside training: the canary's scores, and the checkpoint that the stage keeps."""

from pathlib import Path
from typing import Any, NamedTuple

import torch
from peft import PeftModel

from envgen.dataset import read_dataset
from envgen.prompts import PromptStyle
from policy.canary import Scores, canary_conversations, ends
from policy.scoring import token_logprobs
from policy.train_spec import TrainSpec
from policy.transformers_model import load


class CanaryTexts(NamedTuple):
    """Token sequences, and how many tokens at the end of each are the answer."""

    sequences: list[list[int]]
    answers: list[int]


def canary_texts(tokenizer: Any, data: Path, style: PromptStyle) -> CanaryTexts:
    """The first training boards with their optimal answers as the policy reads and writes them."""
    sequences, answers = [], []
    for question, answer in canary_conversations(read_dataset(data), style):
        asked = tokenizer.apply_chat_template([question.model_dump()], tokenize=False, add_generation_prompt=True)
        prompt_ids = tokenizer(asked, add_special_tokens=False)["input_ids"]
        answer_ids = tokenizer(answer.content, add_special_tokens=False)["input_ids"]
        sequences.append(prompt_ids + answer_ids)
        answers.append(len(answer_ids))
    return CanaryTexts(sequences, answers)


def scores_before(trainer: Any, texts: CanaryTexts) -> Scores | None:
    """Log-probabilities of the canary's answers before training, in the first process; None where no process holds the weights whole."""
    plugin = trainer.accelerator.state.deepspeed_plugin
    if not trainer.accelerator.is_main_process or (plugin is not None and plugin.zero_stage == 3):
        return None
    return _scores(trainer.model, trainer, texts)


def scores_after(trainer: Any, texts: CanaryTexts) -> Scores:
    """The same under the trained weights. Every process takes part: the weights may be split over them."""
    return _scores(trainer.model_wrapped, trainer, texts)


def _scores(model: Any, trainer: Any, texts: CanaryTexts) -> Scores:
    training = model.training
    model.eval()
    with trainer.accelerator.autocast():
        # One text at a time: the weights, gradients and optimizer's state are still there.
        found = token_logprobs(model, texts.sequences, next(model.parameters()).device, at_once=1)
    model.train(training)
    return ends(found, texts.answers)


def save(trainer: Any, spec: TrainSpec) -> Path:
    """Save the trained policy into the work folder in Hugging Face layout, an adapter merged into the weights it was trained on.

    Every process takes part. Merged in float32: in bfloat16 a small change of a weight would be rounded away.
    """
    partial = spec.work / "checkpoint.partial"
    if spec.training.lora is None:
        trainer.save_model(str(partial))
    else:
        adapter = spec.work / "adapter"
        trainer.save_model(str(adapter))
        if trainer.accelerator.is_main_process:
            model, tokenizer = load(spec.parent, "float32")
            PeftModel.from_pretrained(model, str(adapter)).merge_and_unload().save_pretrained(str(partial))
            tokenizer.save_pretrained(str(partial))
    if trainer.accelerator.is_main_process:
        (partial / "training_args.bin").unlink(missing_ok=True)  # a pickle of paths on this machine
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return partial
