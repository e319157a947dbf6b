import json
import shutil
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from envgen.errors import ModelError
from policy.checkpoints import TINY_DIRECTORY
from policy.grpo.model_size import CONFIGS, count, known_positions, model_size

LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 500,
    "tie_word_embeddings": False,
    "dtype": "bfloat16",
}


@pytest.mark.slow
def test_a_checkpoint_has_the_weights_that_are_in_its_file():
    stored = sum(weights.size for weights in load_file(TINY_DIRECTORY / "model.safetensors").values())
    found = model_size("tiny")
    assert (found.parameters, found.trained, found.adapters, found.dtype) == (stored, stored, None, "float32")
    assert found.vocab_size == json.loads((TINY_DIRECTORY / "config.json").read_text())["vocab_size"]


def test_a_known_model_is_counted_without_network_and_its_adapters_by_hand():
    config = json.loads(CONFIGS.read_text())["Qwen/Qwen3-1.7B"]
    found = count("", config, {"r": 4, "target_modules": ["k_proj", "down_proj"]})
    assert found.parameters == 1_720_574_976, "as its model card says: 1.7 billion, 1.4 without the embedding"
    assert found.embedding == 151_936 * 2048
    assert found.adapters == found.trained == 28 * 4 * ((2048 + 8 * 128) + (6144 + 2048))
    assert found.cached == 2 * 28 * 8 * 128


def test_another_architecture_is_counted_too(tmp_path: Path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    found = count(str(tmp_path), None, None)
    layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96 + 2 * 64
    assert found.parameters == 3 * layer + 64 + 2 * 500 * 64
    assert (found.embedding, found.cached, found.dtype) == (500 * 64, 2 * 3 * 2 * 16, "bfloat16")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "lora", "said"),
    [
        ("tiny", {"target_modules": ["nowhere_proj"]}, "nowhere_proj"),
        ("nobody/nothing", None, r"; known without network are Qwen/Qwen3-0\.6B"),
    ],
)
def test_what_cannot_be_counted_says_why(
    model: str, lora: dict | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match=f"{model}: its weights cannot be counted: .*{said}"):
        model_size(model, lora)


def test_the_longest_sequence_is_known_without_counting(tmp_path: Path):
    tiny = json.loads((TINY_DIRECTORY / "config.json").read_text())
    assert known_positions("tiny") == tiny["max_position_embeddings"]
    assert {known_positions(model) for model in json.loads(CONFIGS.read_text())} == {40_960}
    assert known_positions("nobody/nothing") is None
    shutil.copy(TINY_DIRECTORY / "config.json", tmp_path)
    assert known_positions(str(tmp_path)) == known_positions("tiny")
