"""Checkpoints that are damaged, or that were made to do harm: one message, no code of theirs, no question."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from envgen.errors import ModelError
from policy.chat.transformers_model import TransformersModel, load
from policy.checkpoints import TINY_DIRECTORY


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return shutil.copytree(TINY_DIRECTORY, tmp_path / "checkpoint")


def change(path: Path, **fields: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_weights_that_are_cut_off_are_refused(checkpoint: Path):
    weights = checkpoint / "model.safetensors"
    for size in (0, 7, 5000, weights.stat().st_size - 1):
        weights.write_bytes((TINY_DIRECTORY / weights.name).read_bytes()[:size])
        with pytest.raises(ModelError, match=r"checkpoint: cannot be loaded: \w+"):
            load(str(checkpoint))


def test_a_missing_weight_is_not_drawn_at_random(checkpoint: Path):
    weights = load_file(checkpoint / "model.safetensors")
    lost = next(name for name in weights if name.endswith("q_proj.weight"))
    weights["lost"] = weights.pop(lost)
    save_file(weights, checkpoint / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=f"its files lack 1 of its weights, as '{lost}'"):
        load(str(checkpoint))


def test_a_pickle_is_not_run(checkpoint: Path, tmp_path: Path):
    class Touch:
        def __reduce__(self) -> tuple:
            return Path.touch, (tmp_path / "ran",)

    (checkpoint / "model.safetensors").unlink()
    torch.save({"weights": Touch()}, checkpoint / "pytorch_model.bin")
    with pytest.raises(ModelError, match="checkpoint: cannot be loaded: "):
        load(str(checkpoint))
    (checkpoint / "pytorch_model.bin").write_bytes(b"\x80\x04no pickle")
    with pytest.raises(ModelError, match="checkpoint: cannot be loaded: "):
        load(str(checkpoint))
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_code_that_a_checkpoint_brings_is_neither_run_nor_asked_about(checkpoint: Path, tmp_path: Path):
    (checkpoint / "modeling.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Mine: pass\n")
    names = ("AutoConfig", "AutoModelForCausalLM")
    change(checkpoint / "config.json", model_type="mine", auto_map=dict.fromkeys(names, "modeling.Mine"))
    code = f"from policy.chat.transformers_model import load; load({str(checkpoint)!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], input="y\n" * 9, capture_output=True, text=True, timeout=120
    )
    assert done.stderr.splitlines()[-1].startswith("envgen.errors.ModelError: ")
    assert "[y/N]" not in done.stdout
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{% for", "its chat template cannot be used: TemplateSyntaxError"),
        (
            "{{ messages.__class__.__mro__[1].__subclasses__() }}",
            "its chat template cannot be used: SecurityError",
        ),
        ("{{ raise_exception('no users') }}", "its chat template cannot be used: TemplateError: no users"),
        ("{{ 'x' * 10 ** 12 }}", "its chat template cannot be used: "),
    ],
)
def test_a_chat_template_that_fails_is_one_message(checkpoint: Path, template: str, said: str):
    (checkpoint / "chat_template.jinja").write_text(template)
    with pytest.raises(ModelError, match=said):
        load(str(checkpoint))


def test_a_chat_template_that_takes_no_such_question_is_one_message(checkpoint: Path):
    from policy.chat.contract import Message, Sampling

    template = "{% if messages[0]['content'] != 'Hello' %}{{ raise_exception('not this') }}{% endif %}x"
    (checkpoint / "chat_template.jinja").write_text(template)
    model = TransformersModel(str(checkpoint))
    with pytest.raises(ModelError, match="does not take these questions: TemplateError: not this"):
        model.complete([(Message(role="user", content="Bye"),)], Sampling(max_tokens=4))


FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")
DAMAGE = (b"", b"{", b"[]", b"\xff\xfe", b'{"vocab_size": -1, "added_tokens": 7}')


@pytest.mark.parametrize("name", FILES)
def test_damaged_json_of_a_checkpoint_is_one_message_or_unread(checkpoint: Path, name: str):
    said = []
    for content in DAMAGE:
        (checkpoint / name).write_bytes(content)
        try:
            load(str(checkpoint))
        except ModelError as error:
            said.append(str(error))
    assert all(one.startswith(str(checkpoint)) and "\n" not in one for one in said)
    assert said or name == "generation_config.json"
