"""Where the weights of a policy are, and their identity."""

import os
from pathlib import Path
from typing import NamedTuple

from envgen.errors import ModelError
from envgen.files import file_digest
from policy import fetched
from policy.folder import check_folder

TINY_DIRECTORY = Path(__file__).parent / "tiny" / "base"
SHIPPED = {"tiny": TINY_DIRECTORY, "tiny-puzzles": Path(__file__).parent / "tiny" / "puzzles"}
"""Name -> directory of the policies that come with the package; their cards say how they were made."""
TAUGHT = "taught.json"
"""Beside the weights of a policy that `envwright bootstrap` made: how it was taught to be asked."""


class Former(NamedTuple):
    """A policy that was shipped once, which stored answers go back to."""

    weights: str
    """SHA-256 of its `model.safetensors`."""
    page: str
    """Says how to get them, and how to name their folder as the model."""
    called: str
    """Its name while it was shipped, by which registrations know it."""


FORMER = {
    "tiny-wide": Former(
        "a8792697f00a4191c5d7bf3177625a220347672a3109987d572d0fc14bab0001",
        "docs/study/registration.md",
        "tiny-wide",
    ),
    "tiny-waits": Former(
        "42b3087807de8ae1f298a03ec4b23dcbd90db1211d53de5bcc18a82122e2e144",
        "docs/study/registration.md",
        "tiny-waits",
    ),
    "tiny-round-3": Former(
        "8dcd82e559f11278789ce4ea7c61e6231f3c771e7c828adf431ed550e932321c",
        "docs/strong/study/registration.md",
        "tiny",
    ),
}


def resolve_model(name: str) -> str:
    """The source that backends load: the folder of a shipped policy or a fetched model for its name, else a
    checkpoint or hub id as it is.

    A name that looks like a path must be a checkpoint; ModelError otherwise, for a former policy, and for a
    model that is to be fetched first.
    """
    if name in SHIPPED:
        return str(SHIPPED[name])
    if name in FORMER:
        raise ModelError(
            f"{name}: the weights of this policy are not shipped any more; {FORMER[name].page} says "
            "how to get them and how to name their folder as the model; for the shipped policy name tiny, "
            "for a new one run envwright bootstrap"
        )
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
    """SHA-256 of the weights that a name stands for; what has no such file stands for itself.

    Also known for a former policy, whose weights are not here.
    """
    if model in FORMER:
        return FORMER[model].weights
    source = resolve_model(model)
    weights = Path(source) / "model.safetensors"
    return file_digest(weights) if weights.is_file() else source


def model_identity(source: str) -> str:
    """Digest of a checkpoint directory; a hub id stands for itself."""
    path = Path(source)
    return file_digest(path) if path.is_dir() else source
