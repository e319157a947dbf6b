"""Turn a GGUF file into a checkpoint in Hugging Face layout: `python -m policy.gguf_child SPEC.json`.

A child process with bounds, as a damaged file may ask for any memory and time. What is wrong with the file it
tells as a progress line `{"problem": ...}`, and ends with exit code 1.
"""

import os
import resource
import sys
from pathlib import Path
from typing import Any, Literal

from envgen.errors import ModelError
from envgen.frozen import Frozen
from policy.child import tell


class ConversionSpec(Frozen):
    """What the child is told."""

    file: Path
    output: Path
    """Folder to be written; it does not exist yet."""
    dtype: Literal["float32", "bfloat16"]
    memory: int
    """Bytes that the child may ask for."""


def convert(spec: ConversionSpec) -> dict[str, Any]:
    """Write the checkpoint; its number of weights, and what ends an answer. ModelError says what is wrong."""
    fields = _metadata(spec.file)
    from policy.gguf_tokenizer import read_tokenizer

    tokenizer, ends = read_tokenizer(spec.file, fields)
    model = _model(spec.file, spec.dtype)
    tokenizer.model_max_length = model.config.max_position_embeddings
    if len(tokenizer) > model.config.vocab_size:
        raise ModelError(
            f"{spec.file}: has {len(tokenizer)} tokens, but embeddings for {model.config.vocab_size}; the"
            " file is damaged"
        )
    end = ends.every[0] if len(ends.every) == 1 else ends.every
    for config in (model.config, model.generation_config):
        config.eos_token_id, config.pad_token_id = end, tokenizer.pad_token_id
        config.bos_token_id = tokenizer.bos_token_id
    model.save_pretrained(spec.output)
    tokenizer.save_pretrained(spec.output)
    return {"parameters": model.num_parameters(), "end": tokenizer.eos_token}


def _metadata(file: Path) -> dict[str, Any]:
    from gguf import GGUFReader
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES

    try:
        reader = GGUFReader(file)
        fields = {name: field.contents() for name, field in reader.fields.items()}
    except Exception as error:  # whatever lies behind a wrong length
        raise ModelError(
            f"{file}: is truncated or damaged ({type(error).__name__}: {error}); compare its size with that"
            " at its origin, and copy it again"
        ) from None
    kind = fields.get("general.architecture")
    if kind not in GGUF_SUPPORTED_ARCHITECTURES:
        raise ModelError(
            f"{file}: its architecture (general.architecture) is {kind!r}, which transformers does not read"
            f" from GGUF; it reads {', '.join(sorted(GGUF_SUPPORTED_ARCHITECTURES))}. Take the model's"
            " Hugging Face folder instead"
        )
    return fields


def _model(file: Path, dtype: str) -> Any:
    """The model with its weights, as if it had never been quantized."""
    import torch
    from transformers import AutoModelForCausalLM

    options: dict[str, Any] = {"gguf_file": file.name, "dtype": getattr(torch, dtype)}
    loaded: Any
    try:
        loaded = AutoModelForCausalLM.from_pretrained(file.parent, **options, output_loading_info=True)
    except Exception as error:  # of transformers, of gguf or of torch: whatever the file makes of them
        raise ModelError(
            f"{file}: its weights cannot be read ({type(error).__name__}: {error}); copy it again, or take"
            " the model's Hugging Face folder"
        ) from None
    read, found = loaded
    missing = sorted(found["missing_keys"])
    if missing:
        raise ModelError(
            f"{file}: lacks {len(missing)} tensors, as {missing[0]}; copy it again, or take another file"
        )
    broken = [name for name, weight in read.named_parameters() if not bool(weight.isfinite().all())]
    if broken:
        raise ModelError(
            f"{file}: {broken[0]} has weights that are no numbers; the file is damaged, copy it again"
        )
    config = read.config
    del config.quantization_config
    # transformers saves nothing that was quantized once: a new model of the same config takes the weights.
    with torch.device("meta"):
        model = type(read)(config)
    model.load_state_dict(read.state_dict(), assign=True)
    model.tie_weights()
    return model


def main() -> None:
    """Entry point of the child process."""
    spec = ConversionSpec.model_validate_json(Path(sys.argv[1]).read_bytes())
    resource.setrlimit(resource.RLIMIT_DATA, (spec.memory, spec.memory))
    try:
        tell(convert(spec))
    except ModelError as error:
        tell({"problem": str(error)})
        sys.exit(1)


if __name__ == "__main__":
    os.environ["TQDM_DISABLE"] = "1"
    main()
