"""Where the weights of a policy are, and their identity."""

import os
from pathlib import Path

from envgen.errors import ModelError
from envgen.files import file_digest
from policy import fetched
from policy.folder import check_folder

TINY_DIRECTORY = Path(__file__).parent / "tiny" / "base"
SHIPPED = {"tiny": TINY_DIRECTORY, "tiny-puzzles": Path(__file__).parent / "tiny" / "puzzles"}
"""Name -> directory of the policies that come with the package; their cards say how they were made."""
TAUGHT = "taught.json"
"""Beside the weights of a policy that `envwright bootstrap` made: how it was taught to be asked."""


def resolve_model(name: str) -> str:
    """The source that backends load: the folder of a shipped policy or a fetched model for its name, else a
    checkpoint or hub id as it is.

    A name that looks like a path must be a checkpoint; ModelError otherwise, and for a model that is
    to be fetched first.
    """
    if name in SHIPPED:
        return str(SHIPPED[name])
    if (folder := fetched.find(name)) is not None:
        return str(folder)
    path = Path(os.path.expanduser(name))  # unlike Path.expanduser(), leaves an unknown user as it is
    if name.startswith((".", "/", "~")) or path.exists():
        if not (path / "config.json").is_file():
            raise ModelError(
                f"{name}: no checkpoint there (config.json is missing); give a Hugging Face checkpoint "
                "directory or a hub id"
            )
        return str(path)
    return name


def check_model(name: str) -> None:
    """ModelError if what a name stands for cannot be a policy: no chat model, incomplete, or not what was
    fetched. A hub id is not looked at: `policy.hub.check_hub` asks."""
    source = Path(resolve_model(name))
    if source.is_dir():
        check_folder(source)
        if (source / fetched.RECORD).is_file():
            fetched.check(source)


def was_taught_compact(name: str) -> bool:
    """Whether a model was taught the compact wording of design questions, and short answers."""
    path = Path(os.path.expanduser(name))
    return name in SHIPPED or path.resolve() in SHIPPED.values() or (path / TAUGHT).is_file()


def weights_identity(model: str) -> str:
    """SHA-256 of the weights that a name stands for; what has no such file stands for itself."""
    source = resolve_model(model)
    weights = Path(source) / "model.safetensors"
    return file_digest(weights) if weights.is_file() else source


def model_identity(source: str) -> str:
    """Digest of a checkpoint directory; a hub id stands for itself."""
    path = Path(source)
    return file_digest(path) if path.is_dir() else source
