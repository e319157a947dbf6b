"""Where the weights of a policy are, and their identity."""

import json
import os
from pathlib import Path

from envgen.errors import ModelError
from envgen.files import file_digest

TINY_DIRECTORY = Path(__file__).parent / "tiny" / "base"
SHIPPED = {"tiny": TINY_DIRECTORY, "tiny-puzzles": Path(__file__).parent / "tiny" / "puzzles"}
"""Name -> directory of the policies that come with the package; their cards say how they were made."""
SIMULATED = "simulated"
"""The name of a new policy of the simulated learner (`policy.simulated`)."""
SIMULATED_STATE = "simulated.json"
"""The file of a checkpoint that makes it one of the simulated learner."""
CHAT_TOKENS = 10
"""Tokens of a chat template around one question, about."""
HUB_SECONDS = 5
"""Time limit of a request to the hub."""
OTHER_FORMATS = ["*.bin", "*.pth", "*.pt", "*.gguf", "*.h5", "*.msgpack", "*.onnx*", "original/*"]
"""Files of hub models that are no safetensors."""


def resolve_model(name: str) -> str:
    """Return what backends load: the folder of a shipped policy, else a checkpoint folder or hub id as it is;
    ModelError for a name that looks like a path and is no checkpoint."""
    if name in SHIPPED:
        return str(SHIPPED[name])
    path = Path(os.path.expanduser(name))  # unlike Path.expanduser(), leaves an unknown user as it is
    if name.startswith((".", "/", "~")) or path.exists():
        if not (path / "config.json").is_file() and not is_simulated(name):
            remedy = "give a Hugging Face checkpoint directory or a hub id"
            raise ModelError(f"{name}: no checkpoint there (config.json is missing); {remedy}")
        return str(path)
    return name


def is_simulated(name: str) -> bool:
    """Whether a model is the simulated learner, new or as a checkpoint."""
    return name == SIMULATED or (Path(os.path.expanduser(name)) / SIMULATED_STATE).is_file()


def check_model(name: str) -> None:
    """ModelError for a folder without tokenizer, chat template or weights; see `check_hub` for a hub id."""
    folder = Path(resolve_model(name))
    if not folder.is_dir() or is_simulated(name):
        return
    settings = folder / "tokenizer_config.json"
    if not any((folder / file).is_file() for file in ("tokenizer.json", "tokenizer.model", "vocab.json")):
        raise ModelError(f"{folder}: tokenizer.json is missing; copy the tokenizer's files too")
    if not (folder / "chat_template.jinja").is_file() and not (
        settings.is_file() and b'"chat_template"' in settings.read_bytes()
    ):
        raise ModelError(f"{folder}: chat_template.jinja is missing; use an instruction-tuned model")
    if not any(folder.glob("*.safetensors")):
        raise ModelError(f"{folder}: model.safetensors is missing; save the model with save_pretrained()")


def check_hub(name: str) -> str:
    """Return the commit of a model that the hub or its cache here has; empty for a folder. ModelError if
    neither has its config."""
    if is_simulated(name) or Path(resolve_model(name)).is_dir():
        return ""
    from httpx import HTTPError
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        config = hf_hub_download(name, "config.json", etag_timeout=HUB_SECONDS)
    except (HFValidationError, HfHubHTTPError, HTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        problem = f"is no folder here and cannot be loaded from the Hugging Face hub ({reason})"
        remedy = f"check name, HF_TOKEN and network, run hf download {name}, or give a checkpoint directory"
        raise ModelError(f"{name}: {problem}; {remedy}") from None
    return Path(config).parent.name  # snapshots/COMMIT/config.json


def hub_folder(name: str, commit: str) -> str:
    """Return the folder with a commit of a hub model, which is downloaded unless it is in the cache here."""
    from huggingface_hub import snapshot_download

    return snapshot_download(name, revision=commit, ignore_patterns=OTHER_FORMATS)


def max_positions(name: str) -> int | None:
    """Longest sequence of a checkpoint in tokens, prompt and answer; None if unknown. The hub is not asked.
    ModelError for a path without a checkpoint."""
    try:
        config = json.loads((Path(resolve_model(name)) / "config.json").read_bytes())
    except (OSError, ValueError):
        return None
    length = config.get("max_position_embeddings") if isinstance(config, dict) else None
    return length if isinstance(length, int) and length > 0 else None


def prompt_tokens(name: str, prompt: str) -> int | None:
    """Tokens of a prompt with its chat template; None if the tokenizer of the model is not on this machine.
    ModelError for a path without a checkpoint."""
    file = Path(resolve_model(name)) / "tokenizer.json"
    if not file.is_file():
        return None
    from tokenizers import Tokenizer

    return len(Tokenizer.from_file(str(file)).encode(prompt).ids) + CHAT_TOKENS


def model_identity(source: str) -> str:
    """Digest of a checkpoint directory; a hub id stands for itself."""
    path = Path(source)
    return file_digest(path) if path.is_dir() else source
