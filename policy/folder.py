"""Whether a folder is a chat model that everything here can load: said before anything is started."""

import json
import struct
from pathlib import Path
from typing import Any

from envgen.errors import ModelError

_HEADER_LIMIT = 100_000_000
"""Bytes of a safetensors header at most, as its own library has it."""
CONFIG, TOKENIZER, TOKENIZER_CONFIG = "config.json", "tokenizer.json", "tokenizer_config.json"
TEMPLATE, WEIGHTS, INDEX = "chat_template.jinja", "model.safetensors", "model.safetensors.index.json"


def check_folder(folder: Path) -> None:
    """ModelError unless a folder has a model's config, a tokenizer, a chat template, and complete weights as
    safetensors."""
    config = _json(folder / CONFIG)
    if not isinstance(config.get("model_type"), str):
        raise ModelError(f"{folder / CONFIG}: names no model_type; take the folder as its maker published it")
    if not any((folder / name).is_file() for name in (TOKENIZER, "tokenizer.model", "vocab.json")):
        raise ModelError(
            f"{folder}: has no tokenizer ({TOKENIZER}); copy the tokenizer's files from where the model comes"
            " from"
        )
    described = _json(folder / TOKENIZER_CONFIG) if (folder / TOKENIZER_CONFIG).is_file() else {}
    if not (described.get("chat_template") or (folder / TEMPLATE).is_file()):
        raise ModelError(
            f"{folder}: its tokenizer has no chat template ({TEMPLATE}, or chat_template in"
            f" {TOKENIZER_CONFIG}); use an instruction-tuned model"
        )
    for weights in _weights(folder):
        _check_weights(weights)


def _weights(folder: Path) -> list[Path]:
    if (folder / INDEX).is_file():
        shards = _json(folder / INDEX).get("weight_map")
        if not isinstance(shards, dict) or not shards:
            raise ModelError(f"{folder / INDEX}: has no weight_map; copy the folder again")
        return [folder / Path(str(name)).name for name in sorted(set(shards.values()))]
    if not (folder / WEIGHTS).is_file() and (other := sorted(folder.glob("*.bin"))):
        raise ModelError(
            f"{folder}: its weights are {other[0].name}, which may run any program when it is loaded; only"
            " safetensors are read: load it where you trust it, and save_pretrained() it"
        )
    return [folder / WEIGHTS]


def _check_weights(file: Path) -> None:
    """ModelError unless a safetensors file is as long as its header says."""
    try:
        size = file.stat().st_size
        with open(file, "rb") as handle:
            [length] = struct.unpack("<Q", handle.read(8))
            if length > _HEADER_LIMIT or length + 8 > size:
                raise ValueError(f"its header would have {length} bytes")
            tensors = json.loads(handle.read(length))
        ends = [tensor["data_offsets"][1] for name, tensor in tensors.items() if name != "__metadata__"]
        if not ends or max(ends) + length + 8 != size:
            raise ValueError(f"{size} bytes, expected {max(ends, default=0) + length + 8}")
    except OSError as error:
        raise ModelError(f"{file}: cannot be read ({error.strerror}); copy the model again") from None
    except (ValueError, struct.error, TypeError, AttributeError, LookupError, RecursionError) as error:
        raise ModelError(f"{file}: no complete safetensors file ({error}); copy the model again") from None


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_bytes())
    except OSError as error:
        raise ModelError(f"{file}: cannot be read ({error.strerror}); copy the model again") from None
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{file}: is no JSON ({error}); copy the model again") from None
    if not isinstance(found, dict):
        raise ModelError(f"{file}: is a {type(found).__name__}, expected an object; copy the model again")
    return found
