import json
from pathlib import Path

import pytest

from envgen.errors import ModelError
from envgen.files import file_digest
from policy.checkpoints import SHIPPED, check_model, model_identity, resolve_model


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "checkpoint"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_a_shipped_policy_is_found_by_its_name_is_small_and_has_a_model_card(name: str):
    directory = SHIPPED[name]
    assert resolve_model(name) == str(directory)
    assert (directory / "README.md").is_file()
    assert (directory / "model.safetensors").stat().st_size <= 8_000_000
    assert json.loads((directory / "config.json").read_text())["architectures"] == ["Qwen3ForCausalLM"]
    assert not list(directory.rglob("*.bin")), "weights are never pickles"


def test_a_checkpoint_directory_and_a_hub_id_are_taken_as_they_are(checkpoint: Path, monkeypatch):
    assert resolve_model(str(checkpoint)) == str(checkpoint)
    assert model_identity(str(checkpoint)) == file_digest(checkpoint)
    monkeypatch.chdir(checkpoint.parent)
    assert resolve_model("checkpoint") == "checkpoint"
    assert Path(resolve_model("./checkpoint")).resolve() == checkpoint
    monkeypatch.setenv("HOME", str(checkpoint.parent))
    assert resolve_model("~/checkpoint") == str(checkpoint)
    for name in ("Qwen/Qwen3-4B", "gpt2", "org/with.dots-and_more"):
        assert resolve_model(name) == model_identity(name) == name


@pytest.mark.parametrize("name", ["./nowhere", "~/nowhere", "~nobody-of-this-name/nowhere", "empty", "file"])
def test_a_path_without_a_checkpoint_is_a_model_error(name: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match=rf"^{name}: no checkpoint there \(config\.json is missing"):
        resolve_model(name)


def test_what_a_folder_lacks_as_a_policy_is_named(checkpoint: Path):
    with pytest.raises(ModelError, match=r"tokenizer\.json is missing"):
        check_model(str(checkpoint))
    (checkpoint / "tokenizer.json").touch()
    with pytest.raises(ModelError, match=r"chat_template\.jinja is missing"):
        check_model(str(checkpoint))
    (checkpoint / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
    check_model(str(checkpoint))
    (checkpoint / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"model\.safetensors is missing"):
        check_model(str(checkpoint))
