"""A folder that is named as the model is looked at before anything is started with it."""

import json
import shutil
from pathlib import Path

import pytest

from envgen.errors import ModelError
from policy.checkpoints import SHIPPED, check_model


@pytest.fixture
def folder(random_checkpoint: Path, tmp_path: Path) -> Path:
    return shutil.copytree(random_checkpoint, tmp_path / "model")


def refusal(folder: Path) -> str:
    with pytest.raises(ModelError) as refused:
        check_model(str(folder))
    message = str(refused.value)
    assert message.startswith(str(folder))
    return message


def test_whole_folders_and_hub_ids_pass(folder: Path):
    for name in (str(folder), *SHIPPED, "Qwen/Qwen3-4B"):
        check_model(name)


def test_a_template_may_lie_in_the_config_of_the_tokenizer(folder: Path):
    template = (folder / "chat_template.jinja").read_text()
    (folder / "chat_template.jinja").unlink()
    message = refusal(folder)
    assert "no chat template" in message
    assert "instruction-tuned" in message
    described = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**described, "chat_template": template}))
    check_model(str(folder))


def test_without_a_tokenizer(folder: Path):
    (folder / "tokenizer.json").unlink()
    assert "no tokenizer (tokenizer.json); copy" in refusal(folder)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no JSON"),
        ("[]", "expected an object"),
        ("{}", "names no model_type"),
        ("[" * 99_999, "no JSON"),
    ],
)
def test_a_config_that_is_none(text: str, said: str, folder: Path):
    (folder / "config.json").write_text(text)
    assert said in refusal(folder)


def test_pickled_weights_are_not_read(folder: Path):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    message = refusal(folder)
    assert "pytorch_model.bin" in message
    assert "save_pretrained()" in message


@pytest.mark.parametrize("length", [0, 7, 8, 300, -1])
def test_weights_that_are_cut_off(length: int, folder: Path):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:length])
    assert "no complete safetensors file" in refusal(folder)


def test_weights_with_a_header_that_is_none(folder: Path):
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"[]")
    assert "no complete safetensors file" in refusal(folder)


def test_a_shard_that_is_missing(folder: Path):
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    assert "model-00002-of-00002.safetensors: cannot be read" in refusal(folder)
    shutil.copy(folder / shards["a"], folder / shards["b"])
    check_model(str(folder))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": 1}}))
    assert "cannot be read" in refusal(folder)
