"""Make a base policy: a small Qwen3 from nothing, or a chat model that is taught with its own tokenizer.

Supervised on references of environments and, where the recipe says so, on the engineer task. Run as a child
process: `python -m policy.tiny.bootstrap SPEC.json`. It writes complete checkpoints and goes
on from the last one after a crash. What is wrong with a model it tells
as a progress line `{"problem": ...}`, and ends with exit code 1.
"""

import functools
import json
import sys
from pathlib import Path
from typing import Any

import torch
from datasets import IterableDataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

from envgen.errors import ModelError
from envgen.files import move_directory, write_json
from policy.chat.contract import Sampling
from policy.chat.transformers_model import TransformersModel, load
from policy.checkpoints import TAUGHT, was_taught_compact
from policy.child import tell
from policy.evaluation import evaluate
from policy.grpo.saving import ProgressLines, merge_adapter
from policy.grpo.train_spec import last_checkpoint
from policy.rollouts import breakdown_of
from policy.tiny.corpus import (
    READ_BY_TOKENIZER,
    batches,
    evaluation_instances,
    lesson_examples,
)
from policy.tiny.encoding import encoded, end_of_answer
from policy.tiny.new_model import USUAL, build_tokenizer, new_model
from policy.tiny.optimizer import MuonAdamW, parameters
from policy.tiny.spec import DESIGNS, HELD_OUT, RATES, BootstrapRecipe, BootstrapSpec, Rates, Taught


def bootstrap(spec: BootstrapSpec) -> None:
    """Train the base policy and put it at `spec.output` in Hugging Face layout.

    ModelError if the model that is to be taught cannot be.
    """
    recipe = spec.recipe
    held_out = frozenset(json.loads((spec.work / HELD_OUT).read_text()))
    torch.manual_seed(recipe.seed)
    designs = [(question, text) for question, text in json.loads((spec.work / DESIGNS).read_text())]
    if recipe.model is not None:
        model, tokenizer = load(recipe.model, recipe.dtype)
    else:
        read = (*lesson_examples(recipe, held_out, 0), *designs[:READ_BY_TOKENIZER])
        texts, vocabulary = (text for pair in read for text in pair), recipe.lessons[0].task.vocabulary
        tokenizer = build_tokenizer(texts, vocabulary or USUAL)
        model = new_model(recipe, tokenizer)
    resume = last_checkpoint(spec.work)
    first = int(resume.name.rpartition("-")[2]) if resume else 0
    end = end_of_answer(tokenizer, model.generation_config.eos_token_id)
    size = f"{model.num_parameters() / 1e6:.2f} M parameters, {len(tokenizer)} tokens"
    print(f"{size}, from step {first}", flush=True)
    before = _rates(recipe, recipe.model) if recipe.model else {}
    if first < recipe.steps:
        trainer = SFTTrainer(
            model=model,
            args=_arguments(recipe, spec.work),
            train_dataset=IterableDataset.from_generator(
                lambda: ({"pairs": batch} for batch in batches(recipe, held_out, designs, first))
            ),
            data_collator=functools.partial(encoded, tokenizer=tokenizer, end=end),
            processing_class=tokenizer,
            callbacks=[ProgressLines()],
            optimizer_cls_and_kwargs=_optimizer(recipe, model),
            peft_config=None if recipe.lora is None else LoraConfig(task_type="CAUSAL_LM", **recipe.lora),
        )
        trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    was_taught = recipe.model is not None and was_taught_compact(recipe.model)
    _finish(spec, tokenizer, was_taught or bool(designs), before)


def _finish(spec: BootstrapSpec, tokenizer: Any, compact: bool, before: Rates) -> None:
    """Put the policy together from its last checkpoint, an adapter merged into the model that it is for."""
    partial, recipe = spec.work / "policy.partial", spec.recipe
    checkpoint = spec.work / f"checkpoint-{recipe.steps}"
    if recipe.model is not None and recipe.lora is not None:
        merge_adapter(recipe.model, checkpoint, partial)
    else:
        model, _ = load(str(checkpoint))
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
    if compact:
        write_json(partial / TAUGHT, {"wording": "compact"})
    after = _rates(recipe, str(partial))
    write_json(partial / RATES, Taught(model=recipe.model, steps=recipe.steps, before=before, after=after))
    move_directory(partial, spec.output)


def _rates(recipe: BootstrapRecipe, source: str) -> Rates:
    """Return the valid rates of a policy's greedy answers on instances that are not taught."""
    model = TransformersModel(source, batch_size=recipe.batch_size, dtype=recipe.dtype)
    sampling, rates = Sampling(max_tokens=recipe.longest_answer), Rates()
    for lesson in recipe.lessons:
        task, instances = lesson.task, evaluation_instances(lesson, recipe.evaluation_instances)
        rollouts = evaluate(model, task, instances, lesson.style, sampling)
        strata = breakdown_of(task, rollouts).strata
        rates[lesson.name] = {task.space.label(name): part.valid_rate for name, part in strata.items()}
    return rates


def _optimizer(recipe: BootstrapRecipe, model: Any) -> tuple[type[MuonAdamW], dict[str, Any]] | None:
    """Muon and AdamW, each at its rate; None: AdamW alone, as the trainer makes it."""
    if recipe.muon_learning_rate is None:
        return None
    rates = {"muon_lr": recipe.muon_learning_rate, "adamw_lr": recipe.adamw_learning_rate}
    return MuonAdamW, {**parameters(model), **rates}


def _arguments(recipe: BootstrapRecipe, work: Path) -> SFTConfig:
    return SFTConfig(
        output_dir=str(work),
        max_steps=recipe.steps,
        learning_rate=recipe.adamw_learning_rate,
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
        # A step of a chat model takes seconds, of which something should be seen.
        logging_steps=20 if recipe.model is None else 1,
        seed=recipe.seed,
    )


def main(spec: BootstrapSpec) -> None:
    """Make the policy; the parent hears what is wrong with a model before this process ends."""
    try:
        bootstrap(spec)
    except ModelError as error:
        tell({"problem": str(error)})
        sys.exit(1)


if __name__ == "__main__":
    main(BootstrapSpec.model_validate_json(Path(sys.argv[1]).read_text()))
