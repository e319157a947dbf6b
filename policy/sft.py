"""Teach a chat model the references of an environment by TRL's supervised fine-tuning, in a child process:
`python -m policy.sft SPEC.json`. It continues from the last complete checkpoint after a crash."""

import sys
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

from envgen.errors import EnvwrightError
from envgen.files import move_directory, write_json
from policy.chat.contract import Sampling
from policy.chat.tokenizer import chat_tokens, template_end
from policy.chat.transformers_model import TransformersModel, load
from policy.child import PROBLEM, tell
from policy.evaluation import evaluate
from policy.grpo.saving import StageWatch, merge_adapter
from policy.grpo.train_spec import last_checkpoint
from policy.rollouts import breakdown_of
from policy.warm_start import RATES, Rates, Taught, WarmStartSpec, evaluation_instances, examples

NO_LABEL = -100
WARMUP, DECAY = 0.05, 0.5
"""Share of the steps in which the learning rate rises, and in which it falls to 2 % of its peak."""


def warm_start(spec: WarmStartSpec) -> None:
    """Train the model and put it at `spec.output` in Hugging Face layout. ModelError if it cannot be taught,
    ShortageError if there is nothing to teach."""
    recipe, resume = spec.recipe, last_checkpoint(spec.work)
    torch.manual_seed(recipe.seed)
    model, tokenizer = load(spec.model, recipe.dtype, spec.chat_template_kwargs)
    end = template_end(tokenizer)
    end = tokenizer.eos_token_id if end is None else end
    start = f"resuming from {resume.name}" if resume else "starting from the first step"
    print(f"{model.num_parameters() / 1e6:.2f} M parameters, {start}", flush=True)
    before = _rates(spec, spec.model)
    trainer = SFTTrainer(
        model=model,
        args=_arguments(spec),
        train_dataset=Dataset.from_list(encoded(examples(spec), tokenizer, end)),
        processing_class=tokenizer,
        callbacks=[StageWatch()],
        peft_config=None if recipe.lora is None else LoraConfig(task_type="CAUSAL_LM", **recipe.lora),
    )
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    _finish(spec, tokenizer, before)


def _finish(spec: WarmStartSpec, tokenizer: Any, before: Rates) -> None:
    """Put the policy together from its last checkpoint, an adapter merged into the model that it is for."""
    partial, checkpoint = spec.work / "policy.partial", spec.work / f"checkpoint-{spec.recipe.steps}"
    if spec.recipe.lora is not None:
        dtype = getattr(torch, spec.recipe.dtype)
        merge_adapter(spec.model, checkpoint, partial, spec.chat_template_kwargs, dtype)
    else:
        model, _ = load(str(checkpoint))
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
    after = _rates(spec, str(partial))
    taught = Taught(model=spec.model, steps=spec.recipe.steps, before=before, after=after)
    write_json(partial / RATES, taught)
    move_directory(partial, spec.output)


def _rates(spec: WarmStartSpec, source: str) -> Rates:
    """Return the valid rates of a policy's greedy answers on instances that are not taught."""
    recipe = spec.recipe
    options: dict[str, Any] = {"dtype": recipe.dtype, "template_kwargs": spec.chat_template_kwargs}
    model = TransformersModel(source, batch_size=recipe.batch_size, **options)
    task, sampling = spec.task, Sampling(max_tokens=spec.answer_tokens)
    rollouts = evaluate(model, task, evaluation_instances(spec), spec.style, sampling)
    strata = breakdown_of(task, rollouts).strata
    return {task.space.label(name): part.valid_rate for name, part in strata.items()}


def encoded(pairs: list[tuple[str, str]], tokenizer: Any, end: int) -> list[dict[str, list[int]]]:
    """Return questions with answers as token ids; the answers and the token `end` after them have a loss."""
    questions = chat_tokens(tokenizer, [question for question, _ in pairs])
    answers = tokenizer([answer for _, answer in pairs], add_special_tokens=False)["input_ids"]
    return [
        {"input_ids": [*question, *answer, end], "labels": [*[NO_LABEL] * len(question), *answer, end]}
        for question, answer in zip(questions, answers, strict=True)
    ]


def _arguments(spec: WarmStartSpec) -> SFTConfig:
    recipe, gpu = spec.recipe, torch.cuda.is_available()
    return SFTConfig(
        output_dir=str(spec.work),
        max_steps=recipe.steps,
        learning_rate=recipe.learning_rate,
        per_device_train_batch_size=recipe.batch_size,
        lr_scheduler_type="warmup_stable_decay",
        lr_scheduler_kwargs={
            "num_decay_steps": round(DECAY * recipe.steps),
            "decay_type": "linear",
            "min_lr_ratio": 0.02,
        },
        warmup_steps=round(WARMUP * recipe.steps),
        max_length=None,
        bf16=recipe.bf16,
        gradient_checkpointing=recipe.gradient_checkpointing,
        use_cpu=not gpu,
        dataloader_pin_memory=gpu,
        save_strategy="steps",
        save_steps=recipe.save_steps,
        save_total_limit=2,
        report_to=[],
        disable_tqdm=True,
        logging_steps=1,
        seed=recipe.seed,
    )


def main(spec: WarmStartSpec) -> None:
    """Teach the model; report an error with a remedy to the parent before this process ends."""
    try:
        warm_start(spec)
    except EnvwrightError as error:
        tell({PROBLEM: str(error)})
        sys.exit(1)


if __name__ == "__main__":
    main(WarmStartSpec.model_validate_json(Path(sys.argv[1]).read_text()))
