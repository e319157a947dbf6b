"""What a training child writes after training: the canary's scores and the stage's checkpoint."""

from pathlib import Path
from typing import Any

from peft import PeftModel
from transformers.integrations.deepspeed import unset_hf_deepspeed_config

from envgen.dataset import read_dataset
from envgen.environment import Environment
from policy.chat.transformers_model import load, token_logprobs
from policy.grpo.canary import TEXTS, Canary
from policy.grpo.train_spec import TrainSpec


def canary_of(trainer: Any, tokenizer: Any, family: Environment, spec: TrainSpec) -> Canary:
    """Score the reference answers of the first training instances. Every process takes part."""
    sequences, lengths = [], []
    for instance in read_dataset(spec.data)[:TEXTS]:
        question = [{"role": "user", "content": family.prompt(instance, spec.style)}]
        asked = tokenizer.apply_chat_template(question, tokenize=False, add_generation_prompt=True)
        prompt_ids = tokenizer(asked, add_special_tokens=False)["input_ids"]
        answer_ids = tokenizer(family.reference(instance), add_special_tokens=False)["input_ids"]
        sequences.append(prompt_ids + answer_ids)
        lengths.append(len(answer_ids))
    model = trainer.model_wrapped
    model.eval()
    with trainer.accelerator.autocast():
        # One text at a time: weights, gradients and the optimizer's state are still in memory.
        logprobs = token_logprobs(model, sequences, trainer.accelerator.device, at_once=1)
    scores = [row[-length:] for row, length in zip(logprobs, lengths, strict=True)]
    return Canary(sequences=sequences, scores=scores)


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
