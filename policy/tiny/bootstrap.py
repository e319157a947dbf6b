"""Make the start policy: a small Qwen3 trained on optimal plans of boards without waits and on the engineer task.

Run as a child process: `python -m policy.tiny.bootstrap SPEC.json`.
"""

import sys
from pathlib import Path

import torch
from datasets import Dataset
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl import SFTConfig, SFTTrainer

from envgen.files import move_directory
from policy.progress import ProgressLines
from policy.tiny.corpus import read_examples
from policy.tiny.spec import BootstrapRecipe, BootstrapSpec
from policy.tiny.tokenizer import END, MAX_LENGTH, PAD, build_tokenizer
from policy.transformers_model import load


def bootstrap(spec: BootstrapSpec) -> None:
    """Train the start policy and put it at `spec.output` in Hugging Face layout."""
    recipe, examples = spec.recipe, read_examples(spec.examples)
    if spec.continue_from:
        model, tokenizer = load(str(spec.continue_from), "float32")
    else:
        tokenizer = build_tokenizer(text for pair in examples for text in pair)
        model = new_model(recipe, tokenizer)
    print(f"{model.num_parameters() / 1e6:.2f} M parameters, {len(tokenizer)} tokens, {len(examples)} examples", flush=True)
    rows = [{"prompt": [{"role": "user", "content": question}], "completion": [{"role": "assistant", "content": text}]} for question, text in examples]
    partial = spec.output.with_name(f".{spec.output.name}.partial")
    trainer = SFTTrainer(
        model=model, args=_arguments(recipe, partial), train_dataset=Dataset.from_list(rows), processing_class=tokenizer, callbacks=[ProgressLines()]
    )
    trainer.train()
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
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


def _arguments(recipe: BootstrapRecipe, folder: Path) -> SFTConfig:
    return SFTConfig(
        output_dir=str(folder),
        max_steps=recipe.steps,
        per_device_train_batch_size=recipe.batch_size,
        train_sampling_strategy="group_by_length",
        learning_rate=recipe.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=50,
        weight_decay=0.01,
        adam_beta2=0.98,
        max_grad_norm=1.0,
        completion_only_loss=True,
        max_length=MAX_LENGTH,
        packing=False,
        # bfloat16 autocast does not learn at this size on a CPU.
        bf16=False,
        gradient_checkpointing=False,
        use_cpu=not torch.cuda.is_available(),
        dataloader_pin_memory=False,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        logging_steps=20,
        seed=recipe.seed,
    )


if __name__ == "__main__":
    bootstrap(BootstrapSpec.model_validate_json(Path(sys.argv[1]).read_text()))
