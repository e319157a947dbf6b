"""A model in a process of its own: real children, with a tiny model made on the spot, and vLLM's options."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest
from boards import QUESTIONS
from pydantic import ValidationError

from envgen.errors import ModelError
from policy.chat.contract import Completion, Sampling, ask, equal_groups
from policy.chat.engine import TransformersEngine, start_engine
from policy.chat.engine_config import EngineConfig
from policy.chat.transformers_model import TransformersModel
from policy.chat.vllm_server import VllmEngine, arguments
from policy.child import vllm_python

GREEDY = Sampling(max_tokens=12)
SAMPLED = Sampling(max_tokens=12, temperature=1.0, seed=4)
Start = Callable[..., TransformersEngine]


@pytest.fixture
def start(random_checkpoint: Path, tmp_path: Path) -> Iterator[Start]:
    """Start an engine that logs to `engine.log`, and is closed after the test."""
    with ExitStack() as stack:

        def engine_of(source: Path = random_checkpoint, **config):
            config = EngineConfig(dtype="float32", **config)
            engine = start_engine(str(source), config, tmp_path / "engine.log")
            stack.callback(engine.close)
            return engine

        yield engine_of


@pytest.mark.slow
def test_a_child_answers_like_a_model_here_and_is_replaced_after_an_error(start, random_model):
    engine = start(batch_size=3)
    batches: list[Mapping[int, Completion]] = []
    whole = engine.complete(QUESTIONS, GREEDY, batches.append)
    assert whole == random_model.complete(QUESTIONS, GREEDY)
    assert [len(new) for new in batches] == [3, 1]
    assert engine.complete([], GREEDY) == []
    with pytest.raises(ModelError, match="shorten the prompt"):
        engine.complete([ask("x" * 5_000)], Sampling(max_tokens=8))

    def interrupt(new: Mapping[int, Completion]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.complete(QUESTIONS, GREEDY, interrupt)
    assert engine.complete(QUESTIONS[::-1], GREEDY) == whole[::-1], "no reply of the interrupted call is left"

    def kill(new: Mapping[int, Completion]) -> None:
        assert engine._child
        os.kill(engine._child.pid, signal.SIGKILL)

    with pytest.raises(ModelError, match=r"was killed by SIGKILL .*engine\.log; .*lower .* batch_size"):
        engine.complete(QUESTIONS, SAMPLED, kill)
    assert engine.complete(QUESTIONS, SAMPLED) == random_model.complete(QUESTIONS, SAMPLED)


@pytest.mark.slow
def test_a_child_without_memory_names_the_remedy_and_the_next_call_has_another(
    random_checkpoint: Path, start: Start, random_model: TransformersModel, tmp_path: Path
):
    source = tmp_path / "greedy"
    shutil.copytree(random_checkpoint, source)
    positions, static = {"max_position_embeddings": 2 * 10**12}, {"cache_implementation": "static"}
    for name, fields in (("config", positions), ("generation_config", static)):
        path = source / f"{name}.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    engine = start(source, batch_size=2)
    # A cache for a trillion tokens has no room in any address space.
    with pytest.raises(ModelError, match=r"greedy: RuntimeError: .*memory.*; lower the engine's batch_size"):
        engine.complete(QUESTIONS, Sampling(max_tokens=10**12))
    texts = [completion.text for completion in engine.complete(QUESTIONS, GREEDY)]
    assert texts == [completion.text for completion in random_model.complete(QUESTIONS, GREEDY)]
    assert (tmp_path / "engine.log").read_text().count("loads ") == 2


@pytest.mark.parametrize(
    "fields",
    [{"data_parallel": 2}, {"tensor_parallel": 2}, {"gpu_memory_utilization": 0.5}, {"max_model_len": 4096}],
)
def test_fields_of_vllm_are_refused_on_transformers(fields: dict):
    [(name, value)] = fields.items()
    with pytest.raises(ValidationError, match=f"{name}: {value} is read by the backend vllm only, and"):
        EngineConfig(**fields)
    assert EngineConfig.model_validate(EngineConfig(backend="vllm", **fields).model_dump())


def test_fields_of_the_config_become_options_of_the_server(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    sizes = {"data_parallel": 2, "tensor_parallel": 2, "max_model_len": 99, "batch_size": 7}
    config = EngineConfig(backend="vllm", dtype="bfloat16", **sizes)
    line, sizes = " ".join(arguments("folder", config)), "--data-parallel-size 2 --tensor-parallel-size 2"
    options = f"--model folder {sizes} --max-model-len 99 --dtype bfloat16 --max-num-seqs 7"
    assert [option for option in options.split(" --") if option not in line] == []
    assert "gpu-memory" not in line
    assert "eager" not in line


def test_a_server_that_does_not_start_is_reported_with_the_end_of_its_log(tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho No available memory for the cache blocks\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setenv("ENVWRIGHT_VLLM_PYTHON", str(python))
    engine = start_engine("tiny", EngineConfig(backend="vllm"), tmp_path / "logs" / "engine.log")
    assert isinstance(engine, VllmEngine)
    with pytest.raises(ModelError, match=r"(?s)tiny: vLLM does not start.*max_model_len.*No available mem"):
        engine.complete([ask("?")], GREEDY)


@pytest.mark.skipif(find_spec("vllm") is not None, reason="this interpreter has vLLM")
def test_the_interpreter_of_vllm_is_the_chosen_one_or_that_of_make_vllm(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("ENVWRIGHT_VLLM_PYTHON", str(tmp_path / "nowhere"))
    with pytest.raises(ModelError, match=r"ENVWRIGHT_VLLM_PYTHON: .*nowhere is no interpreter"):
        vllm_python()
    monkeypatch.setenv("ENVWRIGHT_VLLM_PYTHON", sys.executable)
    assert vllm_python() == sys.executable
    monkeypatch.delenv("ENVWRIGHT_VLLM_PYTHON")
    (tmp_path / ".venv-vllm" / "bin").mkdir(parents=True)
    (tmp_path / ".venv-vllm" / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    assert vllm_python() == str(tmp_path / ".venv-vllm" / "bin" / "python")


def test_equal_conversations_are_grouped_and_only_backend_and_dtype_decide_answers():
    assert equal_groups([QUESTIONS[n] for n in (0, 1, 0, 2, 1)]) == [[0, 2], [1, 4], [3]]
    plain, vllm = EngineConfig(), EngineConfig(backend="vllm", max_model_len=99, tensor_parallel=2)
    assert EngineConfig(batch_size=3).decides == plain.decides == {"dtype": "auto"}
    assert vllm.decides == {"dtype": "auto", "backend": "vllm"}
    assert "max_model_len, now 99" in vllm.less_memory
