"""A chat model is taught an environment: it learns, also after it was killed, and keeps its tokenizer."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from support.always_yes import REFERENCE
from support.envwright_command import envwright, killed_once
from support.tiny_chat_model import write_chat_model

from policy.chat.contract import Sampling, ask
from policy.chat.transformers_model import TransformersModel
from policy.checkpoints import check_model
from policy.grpo.train_spec import last_checkpoint
from policy.warm_start import RATES, Taught

GENERATOR = Path(__file__).parents[1] / "support" / "always_yes.py"
PRESET = """
name: words
model: ./llama
instances: 16
max_answer_tokens: 8
environment: {name: module, options: {file: ./always_yes.py}}
default_config: {strata: {short: {data_ratio: 0.5, digits: 2}, long: {data_ratio: 0.5, digits: 5}}}
"""
RECIPE = ["learning_rate=1e-2", "steps=40", "save_steps=20", "evaluation_instances=8"]
COMMAND = ["warmstart", "--preset", "./words.yaml", *(word for text in RECIPE for word in ("--set", text))]
LORA = ["--set", "lora={r: 8, target_modules: all-linear}"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A preset and what it names."""
    write_chat_model(tmp_path / "llama")
    (tmp_path / GENERATOR.name).write_text(GENERATOR.read_text())
    (tmp_path / "words.yaml").write_text(PRESET)
    return tmp_path


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_chat_model_learns_what_it_could_not_do(folder: Path):
    said = envwright(folder, *COMMAND, "-o", "warm").stdout
    taught = Taught.model_validate_json((folder / "warm" / RATES).read_bytes())
    for rates, expected in ((taught.before, 0), (taught.after, 1)):
        assert [rate.value for rate in rates.values()] == [expected, expected]
    assert "short 0.0 [0.0,32.4] 100.0 [67.6,100.0]" in " ".join(said.split())
    check_model(str(folder / "warm"))
    model = TransformersModel(str(folder / "warm"))
    [answer] = model.complete([ask("Is 12345 a number?")], Sampling(max_tokens=8))
    assert (answer.text, answer.finish_reason) == (REFERENCE, "stop")
    for name in ("tokenizer.json", "chat_template.jinja"):
        assert (folder / "warm" / name).read_bytes() == (folder / "llama" / name).read_bytes()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_adapters_of_a_killed_warm_start_go_on_and_end_in_the_same_weights(folder: Path):
    command = [*COMMAND, *LORA, "-o"]
    envwright(folder, *command, "whole")
    killed_once(lambda: last_checkpoint(folder / "warm-work"), folder, *command, "warm")
    assert not (folder / "warm").exists()
    envwright(folder, *command, "warm")
    assert "resuming from checkpoint-20\n" in (folder / "warm-work" / "training.log").read_text()
    ours, whole = (load_file(folder / name / "model.safetensors") for name in ("warm", "whole"))
    assert ours.keys() == whole.keys()
    assert [name for name in whole if not torch.equal(ours[name], whole[name])] == []
    before, name = load_file(folder / "llama" / "model.safetensors"), "model.layers.0.mlp.up_proj.weight"
    assert not torch.equal(before[name], ours[name])
    assert (folder / "warm" / RATES).read_bytes() == (folder / "whole" / RATES).read_bytes()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_has_no_chat_template_or_right_references_or_contradicts_itself_is_named(folder: Path):
    write_chat_model(folder / "base", template=None)
    (folder / "base" / "chat_template.jinja").unlink(missing_ok=True)
    done = envwright(folder, "warmstart", "-o", "warm", "--model", "./base", "--preset", "micro-sums", code=2)
    assert "chat_template.jinja is missing" in done.stderr
    done = envwright(folder, *COMMAND, "--set", "step=30", "-o", "warm", code=2)
    assert "--set: step: Extra inputs are not permitted" in done.stderr
    (folder / GENERATOR.name).write_text(GENERATOR.read_text().replace('"yes"\n\n\ndef', '"no"\n\n\ndef'))
    done = envwright(folder, *COMMAND, "-o", "warm", code=2)
    assert "words.yaml: module: short: the reference 'no' of 'Is " in done.stderr
    assert not list(folder.glob("warm*/"))
