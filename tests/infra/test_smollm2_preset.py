"""The preset of the pretrained model that `envwright fetch` brings."""

from infra.config.preset import load_preset
from policy.fetched import PACKAGED


def test_it_asks_the_fetched_model_in_words_and_lets_it_design():
    preset = load_preset("smollm2-135m")
    assert preset.model in PACKAGED
    assert (preset.prompt_style, preset.stages, preset.space.names) == ("board", 2, ("3", "4"))
    asked = preset.effective_engineer()
    assert (asked.name, asked.wording, asked.schema_decoding) == ("checkpoint", "full", True)
    assert preset.engine.backend == "transformers"
    assert (preset.trl["bf16"], preset.training.dtype) == (False, "float32")


def test_its_work_is_counted_before_the_model_is_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv("ENVWRIGHT_CACHE", str(tmp_path))
    assert 300 < load_preset("smollm2-135m").prompt_tokens() < 450
