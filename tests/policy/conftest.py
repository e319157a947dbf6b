"""A chat model made on the spot."""

from pathlib import Path

import pytest
from support.tiny_chat_model import write_chat_model


@pytest.fixture(scope="session")
def random_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved llama of a few thousand random weights."""
    return write_chat_model(tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="session")
def random_model(random_checkpoint: Path):
    """The saved llama, loaded."""
    from policy.chat.transformers_model import TransformersModel

    return TransformersModel(str(random_checkpoint), batch_size=3, dtype="float32")
