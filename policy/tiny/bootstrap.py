"""Make the start policy: a small Qwen3 trained on optimal plans of boards without waits and on the engineer task.

Run as a child process: `python -m policy.tiny.bootstrap SPEC.json`.
"""

import sys
from pathlib import Path

import torch
from datasets import Dataset
from transformers import Qwen3Config, Qwen3ForCausalLM
from trl import SFTConfig, SFTTrainer

from envgen.files import move_directory
from policy.progress import ProgressLines
from policy.tiny.corpus import board_examples, design_examples
from policy.tiny.spec import BootstrapSpec
from policy.tiny.tokenizer import MAX_LENGTH, build_tokenizer


def bootstrap(spec: BootstrapSpec) -> None:
    """Train the start policy and put it at `spec.output` in Hugging Face layout."""
    boards = board_examples(spec.corpus, frozenset(spec.held_out), spec.workers, progress=lambda line: print(line, flush=True))
    designs = design_examples(spec.corpus)
    tokenizer = build_tokenizer(text for e in boards + designs for text in (e.prompt, e.completion))
    torch.manual_seed(spec.seed)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=spec.hidden_size,
            intermediate_size=3 * spec.hidden_size,
            num_hidden_layers=spec.layers,
            num_attention_heads=spec.heads,
            num_key_value_heads=spec.heads,
            head_dim=spec.hidden_size // spec.heads,
            max_position_embeddings=MAX_LENGTH,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
            rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        )
    )
    print(f"{model.num_parameters() / 1e6:.2f} M parameters, {len(tokenizer)} tokens, {len(boards)} boards, {len(designs)} designs", flush=True)
    rows = [{"prompt": [{"role": "user", "content": e.prompt}], "completion": [{"role": "assistant", "content": e.completion}]} for e in boards + designs]
    partial = spec.output.with_name(f".{spec.output.name}.partial")
    trainer = SFTTrainer(model=model, args=_arguments(spec, partial), train_dataset=Dataset.from_list(rows), processing_class=tokenizer, callbacks=[ProgressLines()])
    trainer.train()
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    move_directory(partial, spec.output)


def _arguments(spec: BootstrapSpec, folder: Path) -> SFTConfig:
    return SFTConfig(
        output_dir=str(folder),
        max_steps=spec.steps,
        per_device_train_batch_size=spec.batch_size,
        train_sampling_strategy="group_by_length",
        learning_rate=spec.learning_rate,
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
        seed=spec.seed,
    )


if __name__ == "__main__":
    bootstrap(BootstrapSpec.model_validate_json(Path(sys.argv[1]).read_text()))
