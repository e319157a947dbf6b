"""Teach a chat model the references of environments by TRL's supervised fine-tuning.

Run as a child process: `python -m policy.sft SPEC.json`. It writes complete checkpoints and continues from
the last one after a crash. An error of the model is a progress line `{"problem": ...}` and exit code 1.
"""

import functools
import json
import sys
from pathlib import Path
from typing import Any

import torch
from datasets import IterableDataset
from peft import LoraConfig
from torch.nn.utils.rnn import pad_sequence
from trl import SFTConfig, SFTTrainer

from envgen.errors import ModelError
from envgen.files import move_directory, write_json
from policy.chat.contract import Sampling
from policy.chat.transformers_model import TransformersModel, chat_tokens, end_tokens, load
from policy.checkpoints import TAUGHT, was_taught_compact
from policy.child import tell
from policy.evaluation import evaluate
from policy.grpo.saving import ProgressLines, merge_adapter
from policy.grpo.train_spec import last_checkpoint
from policy.rollouts import breakdown_of
from policy.warm_start import (
    HELD_OUT,
    RATES,
    Rates,
    Taught,
    WarmStartRecipe,
    WarmStartSpec,
    batches,
    evaluation_instances,
)

NO_LABEL = -100
_ANSWER = "some answer"


def warm_start(spec: WarmStartSpec) -> None:
    """Train the model and put it at `spec.output` in Hugging Face layout.

    ModelError if the model cannot be taught.
    """
    recipe = spec.recipe
    held_out = frozenset(json.loads((spec.work / HELD_OUT).read_text()))
    torch.manual_seed(recipe.seed)
    model, tokenizer = load(recipe.model, recipe.dtype)
    resume = last_checkpoint(spec.work)
    first = int(resume.name.rpartition("-")[2]) if resume else 0
    end = end_of_answer(tokenizer, model.generation_config.eos_token_id)
    size = f"{model.num_parameters() / 1e6:.2f} M parameters, {len(tokenizer)} tokens"
    print(f"{size}, from step {first}", flush=True)
    before = _rates(recipe, recipe.model)
    if first < recipe.steps:
        trainer = SFTTrainer(
            model=model,
            args=_arguments(recipe, spec.work),
            train_dataset=IterableDataset.from_generator(
                lambda: ({"pairs": batch} for batch in batches(recipe, held_out, first))
            ),
            data_collator=functools.partial(encoded, tokenizer=tokenizer, end=end),
            processing_class=tokenizer,
            callbacks=[ProgressLines()],
            peft_config=None if recipe.lora is None else LoraConfig(task_type="CAUSAL_LM", **recipe.lora),
        )
        trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    _finish(spec, tokenizer, before)


def _finish(spec: WarmStartSpec, tokenizer: Any, before: Rates) -> None:
    """Put the policy together from its last checkpoint, an adapter merged into the model that it is for."""
    partial, recipe = spec.work / "policy.partial", spec.recipe
    checkpoint = spec.work / f"checkpoint-{recipe.steps}"
    if recipe.lora is not None:
        merge_adapter(recipe.model, checkpoint, partial)
    else:
        model, _ = load(str(checkpoint))
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
    if was_taught_compact(recipe.model):
        write_json(partial / TAUGHT, {"wording": "compact"})
    after = _rates(recipe, str(partial))
    write_json(partial / RATES, Taught(model=recipe.model, steps=recipe.steps, before=before, after=after))
    move_directory(partial, spec.output)


def _rates(recipe: WarmStartRecipe, source: str) -> Rates:
    """Return the valid rates of a policy's greedy answers on instances that are not taught."""
    model = TransformersModel(source, batch_size=recipe.batch_size, dtype=recipe.dtype)
    sampling, rates = Sampling(max_tokens=recipe.longest_answer), Rates()
    for lesson in recipe.lessons:
        task, instances = lesson.task, evaluation_instances(lesson, recipe.evaluation_instances)
        rollouts = evaluate(model, task, instances, lesson.style, sampling)
        strata = breakdown_of(task, rollouts).strata
        rates[lesson.name] = {task.space.label(name): part.valid_rate for name, part in strata.items()}
    return rates


def encoded(examples: list[dict[str, Any]], tokenizer: Any, end: int) -> dict[str, torch.Tensor]:
    """Return the pairs of one batch as token ids, with a loss on the answers and the token `end` after them.

    They are padded on the right, so that causal attention needs no mask.
    """
    [batch] = examples
    questions = chat_tokens(tokenizer, [question for question, _ in batch["pairs"]])
    answers = tokenizer([text for _, text in batch["pairs"]], add_special_tokens=False)["input_ids"]
    pairs = [(question, [*answer, end]) for question, answer in zip(questions, answers, strict=True)]
    ids = _padded([question + answer for question, answer in pairs], tokenizer.pad_token_id)
    labels = _padded([[NO_LABEL] * len(question) + answer for question, answer in pairs], NO_LABEL)
    positions = torch.arange(ids.shape[1]).expand_as(ids)
    return {"input_ids": ids, "labels": labels, "position_ids": positions}


def _padded(rows: list[list[int]], value: int) -> torch.Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)


def end_of_answer(tokenizer: Any, configured: int | list[int] | None) -> int:
    """The token that ends an answer: the one that the chat template puts after it, if generation ends there.

    Else the tokenizer's own end. `configured` are the end tokens of the model's generation config; ModelError
    if it has none.
    """
    ends = end_tokens(configured)
    turns = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": _ANSWER}]
    after = tokenizer.apply_chat_template(turns, tokenize=False).rpartition(_ANSWER)[2]
    candidates = (*tokenizer(after, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id, *ends)
    for token in candidates:
        if token in ends:
            return token
    raise ModelError(
        f"{tokenizer.name_or_path}: its generation config names no token that ends an answer (eos_token_id); "
        "add it to generation_config.json"
    )


def _arguments(recipe: WarmStartRecipe, work: Path) -> SFTConfig:
    return SFTConfig(
        output_dir=str(work),
        max_steps=recipe.steps,
        learning_rate=recipe.learning_rate,
        # The batches are put together where they are drawn, in another process.
        per_device_train_batch_size=1,
        dataset_kwargs={"skip_prepare_dataset": True},
        remove_unused_columns=False,
        dataloader_num_workers=1,
        dataloader_prefetch_factor=32,
        # The batches begin after the batches of the checkpoint.
        ignore_data_skip=True,
        lr_scheduler_type="warmup_stable_decay",
        lr_scheduler_kwargs={
            "num_decay_steps": recipe.steps - round(recipe.decay_from * recipe.steps),
            "decay_type": "linear",
            "min_lr_ratio": 0.02,
        },
        warmup_steps=recipe.warmup_steps,
        max_grad_norm=1.0,
        max_length=None,
        packing=False,
        bf16=recipe.bf16,
        gradient_checkpointing=recipe.gradient_checkpointing,
        use_cpu=not torch.cuda.is_available(),
        dataloader_pin_memory=False,
        save_strategy="steps",
        save_steps=recipe.save_steps,
        save_total_limit=2,
        report_to=[],
        disable_tqdm=True,
        logging_steps=1,
        seed=recipe.seed,
    )


def main(spec: WarmStartSpec) -> None:
    """Teach the model; report a ModelError to the parent before this process ends."""
    try:
        warm_start(spec)
    except ModelError as error:
        tell({"problem": str(error)})
        sys.exit(1)


if __name__ == "__main__":
    main(WarmStartSpec.model_validate_json(Path(sys.argv[1]).read_text()))
