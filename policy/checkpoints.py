"""Where the weights of a policy are, and their identity."""

import os
from pathlib import Path

from envgen.errors import ModelError
from envgen.files import file_digest

TINY_DIRECTORY = Path(__file__).parent / "tiny" / "base"
SHIPPED = {
    "tiny": TINY_DIRECTORY,
    "tiny-wide": TINY_DIRECTORY.with_name("start-wide"),
    "tiny-waits": TINY_DIRECTORY.with_name("start-waits"),
}
"""Name -> directory of the start policies that come with the package; their cards say how they were made."""


def resolve_model(name: str) -> str:
    """The source that backends load: a shipped start policy for its name, else a checkpoint directory or hub id as it is.

    A name that looks like a path must be a checkpoint; ModelError otherwise.
    """
    if name in SHIPPED:
        return str(SHIPPED[name])
    path = Path(os.path.expanduser(name))  # unlike Path.expanduser(), leaves an unknown user as it is
    if name.startswith((".", "/", "~")) or path.exists():
        if not (path / "config.json").is_file():
            raise ModelError(f"{name}: no checkpoint there (config.json is missing); give a Hugging Face checkpoint directory or a hub id")
        return str(path)
    return name


def model_identity(source: str) -> str:
    """Digest of a checkpoint directory; a hub id stands for itself."""
    path = Path(source)
    return file_digest(path) if path.is_dir() else source
