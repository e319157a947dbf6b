"""A real `vllm serve` on the CPU answers and designs; `make vllm` installs it."""

import json
import os
import signal

import numpy as np
import pytest
from support.designs import random_context
from support.envwright_command import envwright
from support.prefect_servers import processes_with, vllm_or_skip
from support.tiny_chat_model import IGNORED, tiny_with

from engineer.answer import answer_schema, parse_answer
from engineer.prompt import design_prompt
from envgen.dataset import USUAL, read_dataset
from envgen.errors import ModelError
from envgen.mapf.prompts import PromptStyle
from infra.config.preset import load_preset
from policy.chat.contract import Sampling, ask
from policy.chat.engine_config import EngineConfig
from policy.chat.transformers_model import TransformersModel
from policy.chat.vllm_server import VllmEngine
from policy.evaluation import evaluate
from policy.rollouts import read_rollouts

MICRO = load_preset("micro")


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of the servers. The cache is also the mark of our processes."""
    cache = str(tmp_path_factory.mktemp("cache"))
    # Without a process for the worker, whose imports are a third of a start.
    variables = {"VLLM_CACHE_ROOT": cache, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    return variables | {"ENVWRIGHT_VLLM_PYTHON": str(vllm_or_skip())}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_is_evaluated_and_designed_by_a_server_for_each_policy(tmp_path, server, variables):
    engine = ["--set", "engine.backend=vllm", "--set", "engine.dtype=float32"]
    command = ["run", "micro", "--name", "run", "--stages", "1", *engine]
    envwright(tmp_path, *command, timeout=840, PREFECT_API_URL=server, **variables)
    assert not processes_with(VLLM_CACHE_ROOT=variables["VLLM_CACHE_ROOT"]), "no server is left"
    run = tmp_path / "runs" / "run"
    proposal = json.loads((run / "stage-00" / "proposal.json").read_text())
    [attempt] = proposal["attempts"]
    assert (attempt["error"], attempt["finish_reason"]) == (None, "stop")
    # Another engine may decide otherwise where two tokens are equally likely.
    instances = read_dataset(run / "validation.parquet")
    here = TransformersModel("tiny", dtype="float32")
    expected = evaluate(here, USUAL.load(), instances, PromptStyle.COMPACT, Sampling(max_tokens=40))
    answered = read_rollouts(run / "start" / "rollouts.parquet")
    assert np.mean([a.completion == b.completion for a, b in zip(expected, answered, strict=True)]) > 0.9


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_server_answers_like_transformers_and_is_started_again(tmp_path, monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    config = EngineConfig(backend="vllm", dtype="float32", batch_size=8, max_model_len=1000)
    # Files that say otherwise of end, sampling and prompt than the policy was trained with.
    source = tiny_with(tmp_path / "copy", generation_config={"eos_token_id": [2], **IGNORED})
    template = tmp_path / "copy" / "chat_template.jinja"
    unless = "{{ '' if thinks|default(true) == false and strftime_now('%Y') == '2024' else 'x' }}"
    template.write_text(unless + template.read_text())
    engine = VllmEngine(source, config, tmp_path / "engine.log", {"thinks": False})
    here = TransformersModel("tiny", dtype="float32")
    board = ask("Solve 3x3.\nHoles: none\nAgent 0: (0,0) to (1,1)\nAgent 1: (1,0) to (0,2)")
    other = ask("Solve 4x4.")
    question = ask(design_prompt(random_context(np.random.default_rng(0), MICRO.space), "V6"))
    schema = Sampling(max_tokens=160, json_schema=answer_schema(MICRO.space))
    try:
        greedy = Sampling(max_tokens=40)
        assert engine.complete([board], greedy) == here.complete([board], greedy)
        [design] = engine.complete([question], schema)
        assert parse_answer(design.text, MICRO.space)
        assert design == here.complete([question], schema)[0]
        sampled = Sampling(max_tokens=30, temperature=1.0, seed=2)
        answers = engine.complete([other] * 9, sampled)
        assert len({answer.text for answer in answers}) > 1, "equal conversations get answers of their own"

        def kill(new) -> None:
            os.killpg(engine._child.pid, signal.SIGKILL)

        with pytest.raises(ModelError, match="was killed by SIGKILL"):
            engine.complete([other] * 9, sampled, kill)
        assert engine.complete([other] * 9, sampled) == answers
        with pytest.raises(ModelError, match=r"maximum context length is 1000 tokens.*lower max_tokens"):
            engine.complete([ask("x" * 990)], sampled)
    finally:
        engine.close()
    assert not processes_with(VLLM_CACHE_ROOT=variables["VLLM_CACHE_ROOT"])
