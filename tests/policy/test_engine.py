"""A model in child processes: real ones, with a tiny model made on the spot."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from boards import QUESTIONS
from pydantic import ValidationError

from envgen.errors import ModelError
from policy.chat.contract import Completion, Sampling, ask, equal_groups
from policy.chat.engine import EngineChatModel
from policy.chat.engine_config import EngineConfig
from policy.chat.replica import device_slice, vllm_python, vllm_version
from policy.chat.transformers_model import TransformersModel

GREEDY = Sampling(max_tokens=12)
DRAWN = Sampling(max_tokens=12, temperature=1.0, seed=4)


def kill(engine: EngineChatModel, number: int = 0) -> None:
    """Kill a process of the engine, and wait for its end."""
    child = engine.replicas[number]._child
    assert child is not None
    os.kill(child.pid, signal.SIGKILL)
    child.wait()


@pytest.fixture(scope="module")
def here(random_checkpoint: Path) -> TransformersModel:
    return TransformersModel(str(random_checkpoint), batch_size=3, dtype="float32")


@pytest.fixture
def start(random_checkpoint: Path, tmp_path: Path) -> Iterator[Callable[..., EngineChatModel]]:
    """Start an engine that logs to `engine.log`, and is closed after the test."""
    with ExitStack() as stack:

        def engine_of(source: Path = random_checkpoint, **config) -> EngineChatModel:
            config = EngineConfig(dtype="float32", **config)
            engine = EngineChatModel(str(source), config, tmp_path / "engine.log")
            stack.callback(engine.close)
            return engine

        yield engine_of


@pytest.mark.slow
def test_a_model_in_a_child_answers_like_one_here_tells_progress_and_can_be_killed(start, here, tmp_path):
    engine = start(batch_size=3)
    told: list[Mapping[int, Completion]] = []
    whole = engine.complete(QUESTIONS, GREEDY, told.append)
    assert whole == here.complete(QUESTIONS, GREEDY)
    assert [len(new) for new in told] == [3, 1]
    assert {index: one for new in told for index, one in new.items()} == dict(enumerate(whole))
    assert engine.complete([], GREEDY) == []
    with pytest.raises(ModelError, match="lower max_tokens"):
        engine.complete([ask("x" * 600)], Sampling(max_tokens=8))
    assert engine.complete([QUESTIONS[0]], Sampling(max_tokens=2))[0].completion_tokens == 2
    assert engine.score([[5, 9, 2], [3]]) == here.score([[5, 9, 2], [3]])
    with pytest.raises(ModelError, match="cannot be scored"):
        engine.score([[1], []])
    assert (tmp_path / "engine.log").read_text().count("loads ") == 1, "a refused request costs no process"

    def tired(new) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.complete(QUESTIONS, GREEDY, tired)
    assert engine.complete(QUESTIONS[::-1], GREEDY) == whole[::-1], "what nobody took is no longer there"


@pytest.mark.slow
def test_a_killed_child_is_asked_again_only_for_what_it_owes(start, here, tmp_path):
    engine, long = start(batch_size=1), ask("x" * 200)
    asked = [*QUESTIONS[:2], long, long, QUESTIONS[2]]
    whole, told = here.complete(asked, DRAWN), []

    def killing(new) -> None:
        told.extend(new)
        if len(told) == 4:  # the long question is answered once of two times
            kill(engine)

    assert engine.complete(asked, DRAWN, killing) == whole
    assert sorted(told) == [0, 1, 2, 3, 4], "each is told once"
    assert "is asked for 2 answers" in (tmp_path / "engine.log").read_text().splitlines()[-1]
    with pytest.raises(ModelError, match=r"was killed by SIGKILL .*, twice; .*engine\.log"):
        engine.complete(asked, DRAWN, lambda _: kill(engine))


@pytest.mark.slow
def test_a_child_that_runs_out_of_memory_says_so_with_the_remedy_and_the_next_call_has_another(
    random_checkpoint, start, here, tmp_path
):
    greedy = tmp_path / "greedy"
    shutil.copytree(random_checkpoint, greedy)
    for name, fields in {
        "config.json": {"max_position_embeddings": 2 * 10**12},
        "generation_config.json": {"cache_implementation": "static"},
    }.items():
        (greedy / name).write_text(json.dumps({**json.loads((greedy / name).read_text()), **fields}))
    engine = start(greedy, batch_size=2)
    remedy = r"lower the engine's batch_size, now 2\. Its output is in .*engine\.log"
    # A cache for a trillion tokens has no room in any address space.
    with pytest.raises(ModelError, match=f"greedy: RuntimeError: .*memory.*; {remedy}"):
        engine.complete(QUESTIONS, Sampling(max_tokens=10**12))
    texts = [one.text for one in engine.complete(QUESTIONS, GREEDY)]
    assert texts == [one.text for one in here.complete(QUESTIONS, GREEDY)]
    assert (tmp_path / "engine.log").read_text().count("loads ") == 2


@pytest.mark.slow
def test_two_replicas_answer_as_one_and_one_of_them_may_die(start, here, tmp_path):
    asked = [ask(f"Solve {n}x{n}.") for n in range(20) for _ in range(1 + n % 3)]
    engine = start(batch_size=2, replicas=2)
    whole = here.complete(asked, DRAWN)
    told: list[int] = []

    def killing(new) -> None:
        if not told:
            kill(engine, 1)
        told.extend(new)

    assert engine.complete(asked, DRAWN, killing) == whole
    assert sorted(told) == list(range(len(asked)))
    pids = [replica.pid for replica in engine.replicas]
    assert None not in pids
    assert engine.complete(asked, DRAWN) == whole
    scores = engine.score([[1, 2, n] for n in range(9)])
    expected = [here.score([[1, 2, n]])[0] for n in range(9)]
    assert np.concatenate(scores) == pytest.approx(np.concatenate(expected))
    with pytest.raises(ModelError, match="lower max_tokens"):
        engine.complete([*asked, ask("x" * 600)], DRAWN)
    assert engine.complete(asked, DRAWN) == whole
    assert [replica.pid for replica in engine.replicas] == pids
    lines = (tmp_path / "engine.log").read_text().splitlines()
    for pid in pids:
        assert sum(f"engine {pid}: is asked" in line for line in lines) > 3, "a few questions at a time"
    engine.close()
    assert [replica.pid for replica in engine.replicas] == [None, None]


def test_equal_conversations_are_found_in_order():
    assert equal_groups([QUESTIONS[n] for n in (0, 1, 0, 2, 1)]) == [[0, 2], [1, 4], [3]]


@pytest.mark.parametrize(
    "fields", [{"tensor_parallel": 2}, {"gpu_memory_utilization": 0.5}, {"max_model_len": 4096}]
)
def test_what_only_vllm_reads_is_refused_on_transformers(fields: dict):
    [(name, value)] = fields.items()
    with pytest.raises(ValidationError, match=f"{name}: {value} is read by the backend vllm only, and"):
        EngineConfig(**fields)
    assert EngineConfig.model_validate(EngineConfig(backend="vllm", **fields).model_dump())


def test_only_backend_and_dtype_decide_answers():
    plain, vllm = EngineConfig(), EngineConfig(backend="vllm", max_model_len=99, tensor_parallel=2)
    assert EngineConfig(batch_size=3, replicas=4).decides == plain.decides == {"dtype": "auto"}
    assert vllm.decides == {"dtype": "auto", "backend": "vllm"}
    remedy = "max_model_len, now 99, or change its gpu_memory_utilization, now vLLM's own 0.92"
    assert remedy in vllm.less_memory


@pytest.mark.parametrize(
    ("given", "replicas", "tensor_parallel", "slices"),
    [
        ("0,1,2,3", 2, 2, [["0", "1"], ["2", "3"]]),
        ("4, 6 ,GPU-7a", 3, 1, [["4"], ["6"], ["GPU-7a"]]),
        ("5,2,9", 1, 2, [["5", "2"]]),
        ("3", 1, 1, [None]),
        ("", 2, 1, [None, None]),
    ],
)
def test_each_replica_sees_gpus_of_its_own(
    given: str, replicas: int, tensor_parallel: int, slices: list, monkeypatch
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    config = EngineConfig(backend="vllm", replicas=replicas, tensor_parallel=tensor_parallel)
    assert [device_slice(number, config) for number in range(replicas)] == slices


def test_too_few_gpus_are_told(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with pytest.raises(
        ModelError, match=r"replicas 3 x engine\.tensor_parallel 1 need 3 GPUs, 2 can be seen"
    ):
        device_slice(0, EngineConfig(replicas=3))


@pytest.mark.skipif(find_spec("vllm") is not None, reason="this interpreter has vLLM")
def test_an_interpreter_without_vllm_is_told_with_the_remedy(tmp_path, monkeypatch):
    with pytest.raises(ModelError, match=r"ENVWRIGHT_VLLM_PYTHON: .*nowhere is no interpreter"):
        vllm_python(tmp_path / "nowhere")
    assert vllm_python(Path(sys.executable)) == sys.executable
    with pytest.raises(ModelError, match="has no vLLM; install it there"):
        vllm_version(sys.executable)
    (tmp_path / ".venv-vllm" / "bin").mkdir(parents=True)
    (tmp_path / ".venv-vllm" / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    assert vllm_python() == str(tmp_path / ".venv-vllm" / "bin" / "python")
