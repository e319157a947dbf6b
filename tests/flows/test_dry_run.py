import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from envgen.errors import ConfigError
from envgen.yaml_files import load_yaml
from flows.commands.dry_run import parse_throughput, show_dry_run
from infra.config.preset import Preset, load_preset, resolved_json

pytestmark = pytest.mark.usefixtures("models_are_counted_here")


def shown(
    name: str,
    gpu_memory: float | None = None,
    throughput: str | None = None,
    length: int | None = None,
    **settings: object,
) -> str:
    console = Console(width=160, record=True, file=io.StringIO())
    show_dry_run(
        load_preset(name, {key.replace("__", "."): value for key, value in settings.items()}),
        console,
        gpu_memory,
        throughput,
        length,
    )
    return console.export_text()


def test_a_dry_run_tells_programs_too(envwright):
    found = json.loads(envwright("run", "micro", "--seed", "7", "--dry-run", "--json").out)
    assert Preset.model_validate(found["preset"]).seed == 7
    assert found["workload"]["optimizer_steps"] == 4
    assert found["memory"]["moments"]


def test_a_dry_run_prints_config_memory_tokens_and_hours_and_leaves_nothing(envwright, tmp_path: Path):
    command = [
        "run",
        "qwen3-4b",
        "--seed",
        "7",
        "--dry-run",
        "--gpu-memory",
        "79",
        "--throughput",
        "3000,8000",
        "--answer-length",
        "2000",
    ]
    done = envwright(*command)
    assert done.code == 0, done.err
    assert list(tmp_path.iterdir()) == []
    for text in (
        "name: qwen3-4b",
        "seed: 7",
        "optimizer state",
        "GiB are left for what is not counted",
        "not counted: activations",
        "500 optimizer steps a stage",
        "2000 tokens on average (as given)",
    ):
        assert text in done.out
    assert "hours" in done.out


def test_the_config_printed_is_the_resolved_one():
    text = shown("tiny", engineer__name="random").partition("Memory of one GPU")[0]
    assert load_yaml(text) == resolved_json(load_preset("tiny", {"engineer.name": "random"}))


def test_the_wording_printed_is_the_one_that_the_engineer_is_asked_in():
    for preset, wording in (("tiny", "compact"), ("qwen3-4b", "full")):
        resolved = load_yaml(shown(preset).partition("Memory of one GPU")[0])
        assert resolved["engineer"]["wording"] == wording


def test_a_card_that_is_too_small_is_answered_with_what_helps():
    text = shown("qwen3-4b", gpu_memory=40)
    assert "does not fit: at least" in text
    assert "weights, 15.0 GiB: training.lora with training.dtype bfloat16" in text
    assert "holds no answer of full length; raise trl.vllm_gpu_memory_utilization" in shown(
        "qwen3-4b", gpu_memory=12
    )


def test_an_engine_that_is_too_large_is_answered_with_its_own_options():
    text = shown("qwen3-4b-lora", gpu_memory=22, engine={"batch_size": 64, "dtype": "bfloat16"})
    assert "while evaluating, in a process of its own, of 22 GiB; what helps:" in text
    assert (
        "KV cache, 39.9 GiB: trl.use_vllm, trl.steps_per_generation, engine.batch_size, max_answer_tokens"
        in text
    )


@pytest.mark.slow
def test_of_a_model_that_cannot_be_counted_all_but_its_memory_is_shown(tmp_path: Path):
    (tmp_path / "config.json").write_text(
        '{"model_type": "nothing-like-that", "max_position_embeddings": 131072}'
    )
    text = shown("qwen3-4b", model=str(tmp_path), throughput="3000,8000")
    assert "its weights cannot be counted" in text
    assert "Memory of one GPU" not in text
    for said in (
        "128 answers to 16 prompts at a time",
        "500 optimizer steps a stage",
        "the curriculum, 3 stages",
    ):
        assert said in text


def test_without_a_rate_there_are_tokens_and_no_hours():
    text = shown("qwen3-4b")
    assert "no hours without --throughput GEN,TRAIN" in text
    assert "an assumption, --answer-length changes it" in text
    assert "--gpu-memory 80 counts what it takes" in text


@pytest.mark.parametrize("text", ["", "3000", "a,b", "1,2,3", "0,5", "-1,5"])
def test_a_rate_that_is_none_is_refused(text: str):
    with pytest.raises(ConfigError, match=r"--throughput .* expected GEN,TRAIN"):
        parse_throughput(text)
