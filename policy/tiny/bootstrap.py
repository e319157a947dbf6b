"""Make a base policy: a small Qwen3, supervised on references of a family and on the engineer task.

Run as a child process: `python -m policy.tiny.bootstrap SPEC.json`. It writes complete checkpoints, says
after each how many held-out instances it solves, and goes on from the last one after a crash.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from datasets import IterableDataset
from transformers import (
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    TrainerCallback,
    TrainerState,
)
from trl import SFTConfig, SFTTrainer
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from envgen.dataset import read_dataset
from envgen.files import move_directory, write_json
from envgen.processes import die_with_parent
from policy.chat.contract import Sampling
from policy.chat.transformers_model import TransformersModel
from policy.checkpoints import TAUGHT
from policy.child import tell
from policy.evaluation import evaluate
from policy.grpo.progress import ProgressLines
from policy.grpo.train_spec import last_checkpoint
from policy.tiny.corpus import READ_BY_TOKENIZER, Example, batches, lesson_examples, read_examples
from policy.tiny.optimizer import MuonAdamW, parameters
from policy.tiny.rates import rates_of, rates_path
from policy.tiny.spec import BootstrapRecipe, BootstrapSpec
from policy.tiny.tokenizer import END, MAX_LENGTH, PAD, USUAL, build_tokenizer


class BatchCollator(DataCollatorForLanguageModeling):
    """Takes a batch that was put together when it was drawn."""

    def torch_call(self, examples: list[dict[str, Any]]) -> dict[str, Any]:
        """Padded on the right, so that causal attention needs no mask.

        What is behind a text is never looked at, and has no loss.
        """
        [batch] = examples
        pairs = zip(batch["input_ids"], batch["labels"], strict=True)
        padded = super().torch_call([{"input_ids": ids, "labels": labels} for ids, labels in pairs])
        places = torch.arange(padded["input_ids"].shape[1]).expand_as(padded["input_ids"])
        return {"input_ids": padded["input_ids"], "labels": padded["labels"], "position_ids": places}


class Evaluation(TrainerCallback):
    """Evaluates each checkpoint on held-out instances."""

    def __init__(self, spec: BootstrapSpec) -> None:
        self._spec, self._instances = spec, [read_dataset(path) for path in spec.evaluation]

    def on_save(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Called by the trainer after each checkpoint."""
        self.tell_rates(state.global_step)

    def tell_rates(self, step: int) -> None:
        """Tell the parent the valid rates of greedy answers of the checkpoint of a step."""
        model = TransformersModel(str(_checkpoint(self._spec, step)), batch_size=128, dtype="float32")
        recipe = self._spec.recipe
        sampling = Sampling(max_tokens=recipe.longest_answer)
        found = []
        for lesson, instances in zip(recipe.lessons, self._instances, strict=True):
            rollouts = evaluate(model, lesson.task, instances, lesson.style, sampling)
            found.append(rates_of(lesson.name, lesson.task.space, rollouts).model_dump(mode="json"))
        tell({"step": step, "steps": recipe.steps, "rates": found})


def bootstrap(spec: BootstrapSpec) -> None:
    """Train the base policy and put it at `spec.output` in Hugging Face layout."""
    recipe = spec.recipe
    held_out = frozenset(json.loads(spec.held_out.read_text()))
    torch.manual_seed(recipe.seed)
    designs = read_examples(spec.designs)
    read = (*lesson_examples(recipe, held_out, 0), *designs[:READ_BY_TOKENIZER])
    vocabulary = getattr(recipe.lessons[0].task, "vocabulary", USUAL)
    tokenizer = build_tokenizer((text for pair in read for text in pair), vocabulary)
    model = new_model(recipe, tokenizer)
    resume, evaluation = last_checkpoint(spec.work), Evaluation(spec)
    first = int(resume.name.rpartition("-")[2]) if resume else 0
    size = f"{model.num_parameters() / 1e6:.2f} M parameters, {len(tokenizer)} tokens"
    print(f"{size}, from step {first}", flush=True)
    if resume and not rates_path(spec.work, first).is_file():
        evaluation.tell_rates(first)
    if first < recipe.steps:
        pad = model.config.pad_token_id
        assert isinstance(pad, int)
        rates = {"muon_lr": recipe.muon_learning_rate, "adamw_lr": recipe.adamw_learning_rate}
        trainer = SFTTrainer(
            model=model,
            args=_arguments(recipe, spec.work),
            train_dataset=IterableDataset.from_generator(
                lambda: _encoded(batches(recipe, held_out, designs, first), tokenizer)
            ),
            data_collator=BatchCollator(pad_token_id=pad),
            processing_class=tokenizer,
            callbacks=[ProgressLines(), evaluation],
            optimizer_cls_and_kwargs=(MuonAdamW, {**parameters(model), **rates}),
        )
        trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    partial = spec.work / "policy.partial"
    # From its checkpoint, which is all that is left of it after a crash behind the last step.
    Qwen3ForCausalLM.from_pretrained(_checkpoint(spec, recipe.steps)).save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    if designs:
        write_json(partial / TAUGHT, {"wording": "compact"})
    move_directory(partial, spec.output)


def new_model(recipe: BootstrapRecipe, tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """A randomly initialised Qwen3 of the recipe's shape."""
    pad, end = (tokenizer.convert_tokens_to_ids(name) for name in (PAD, END))
    assert isinstance(pad, int)
    assert isinstance(end, int)
    torch.manual_seed(recipe.seed)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=recipe.hidden_size,
            intermediate_size=3 * recipe.hidden_size,
            num_hidden_layers=recipe.layers,
            num_attention_heads=recipe.heads,
            num_key_value_heads=recipe.heads,
            head_dim=recipe.hidden_size // recipe.heads,
            max_position_embeddings=MAX_LENGTH,
            tie_word_embeddings=True,
            pad_token_id=pad,
            eos_token_id=end,
            bos_token_id=None,
            rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        )
    )
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = end, pad
    return model


def _checkpoint(spec: BootstrapSpec, step: int) -> Path:
    return spec.work / f"checkpoint-{step}"


def _encoded(drawn: Iterator[list[Example]], tokenizer: PreTrainedTokenizerFast) -> Iterator[dict[str, Any]]:
    """Batches as token ids, with a loss on the answers alone."""
    for batch in drawn:
        messages = [[{"role": "user", "content": question}] for question, _ in batch]
        asked: Any = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        questions: Any = tokenizer(asked, add_special_tokens=False)["input_ids"]
        answers: Any = tokenizer([text + END for _, text in batch], add_special_tokens=False)["input_ids"]
        pairs = list(zip(questions, answers, strict=True))
        yield {
            "input_ids": [question + answer for question, answer in pairs],
            "labels": [[-100] * len(question) + answer for question, answer in pairs],
        }


def _arguments(recipe: BootstrapRecipe, work: Path) -> SFTConfig:
    return SFTConfig(
        output_dir=str(work),
        max_steps=recipe.steps,
        # The batches are put together where they are drawn, in a process of its own.
        per_device_train_batch_size=1,
        dataset_kwargs={"skip_prepare_dataset": True},
        remove_unused_columns=False,
        dataloader_num_workers=1,
        dataloader_prefetch_factor=32,
        # The batches begin behind those of the checkpoint.
        ignore_data_skip=True,
        lr_scheduler_type="warmup_stable_decay",
        lr_scheduler_kwargs={
            "num_decay_steps": recipe.steps - round(recipe.decay_from * recipe.steps),
            "decay_type": "linear",
            "min_lr_ratio": 0.02,
        },
        warmup_steps=recipe.warmup_steps,
        max_grad_norm=1.0,
        max_length=MAX_LENGTH,
        packing=False,
        # bfloat16 autocast does not learn at this size on a CPU.
        bf16=False,
        gradient_checkpointing=False,
        use_cpu=not torch.cuda.is_available(),
        dataloader_pin_memory=False,
        save_strategy="steps",
        save_steps=recipe.save_steps,
        save_total_limit=2,
        report_to=[],
        disable_tqdm=True,
        logging_steps=20,
        seed=recipe.seed,
    )


if __name__ == "__main__":
    die_with_parent(os.getppid())
    bootstrap(BootstrapSpec.model_validate_json(Path(sys.argv[1]).read_text()))
