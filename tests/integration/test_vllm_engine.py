"""Real vLLM on the CPU as engine of a curriculum, and beside transformers. `make vllm` installs it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from support.prefect_servers import vllm_or_skip

from engineer.answer import answer_schema
from engineer.lessons import random_context
from engineer.prompt import design_prompt
from envgen.dataset import USUAL, read_dataset
from envgen.errors import ModelError
from envgen.mapf.prompts import PromptStyle
from infra.config.preset import load_preset
from policy.chat.contract import Completion, Sampling, ask
from policy.chat.engine import EngineChatModel
from policy.chat.engine_config import EngineConfig
from policy.chat.transformers_model import TransformersModel
from policy.checkpoints import TINY_DIRECTORY
from policy.evaluation import evaluate
from policy.rollouts import read_rollouts

MICRO = load_preset("micro")


def asked_for(log: Path) -> list[tuple[int, int, bool]]:
    """(answers, tokens, whether under a schema) of each request in the log of an engine that was started
    once, with vLLM."""
    text = log.read_text()
    assert re.findall(r"loads \S+ with (\w+)", text) == ["vllm"], "one start"
    found = re.findall(r"is asked for (\d+) answers of up to (\d+) tokens( under a schema)?", text)
    return [(int(answers), int(tokens), bool(schema)) for answers, tokens, schema in found]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_curriculum_is_evaluated_and_designed_by_one_start_of_vllm_a_stage(tmp_path: Path):
    environment = {
        **os.environ,
        "ENVWRIGHT_VLLM_PYTHON": str(vllm_or_skip()),
        "ENVWRIGHT_RUNS": str(tmp_path),
        "VLLM_CACHE_ROOT": str(tmp_path / "cache"),
    }
    command = [sys.executable, "-m", "flows.cli", "run", "micro", "--stages", "1", "--name", "run"]
    command += ["--set", "engine.backend=vllm"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=540)
    assert done.returncode == 0, done.stdout + done.stderr
    run = tmp_path / "run"
    stage, instances = run / "stage-00", read_dataset(run / "validation.parquet")
    assert asked_for(run / "start" / "logs" / "engine.log") == [(len(instances), 40, False)]
    evaluation, design = asked_for(stage / "logs" / "engine.log")
    assert (evaluation, design) == ((len(instances), 40, False), (1, 160, True))
    proposal = json.loads((stage / "proposal.json").read_text())
    assert [(attempt["error"], attempt["finish_reason"]) for attempt in proposal["attempts"]] == [
        (None, "stop")
    ]
    assert proposal["fallback"] is None
    assert not list(run.rglob("*.partial*"))
    # Another engine may tie otherwise where two tokens are equally likely.
    here = evaluate(
        TransformersModel("tiny", dtype="float32"),
        USUAL.load(),
        instances,
        PromptStyle.COMPACT,
        Sampling(max_tokens=40),
    )
    there = read_rollouts(run / "start" / "rollouts.parquet")
    assert np.mean([a.completion == b.completion for a, b in zip(here, there, strict=True)]) > 0.9


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_vllm_answers_and_scores_as_transformers_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    python = vllm_or_skip()
    monkeypatch.setenv("VLLM_CACHE_ROOT", str(tmp_path / "cache"))
    config = EngineConfig(backend="vllm", dtype="float32", batch_size=8, max_model_len=1000)
    engine = EngineChatModel(str(TINY_DIRECTORY), config, tmp_path / "engine.log", python)
    here = TransformersModel("tiny", dtype="float32")
    sequences = [list(range(40, 90)), [7], [3, 5, 8, 13]]
    board = ask("Solve 3x3.\nHoles: none\nAgent 0: (0,0) to (1,1)\nAgent 1: (1,0) to (0,2)")
    other = ask("Solve 4x4.")
    question = ask(design_prompt("V6", random_context(np.random.default_rng(0), MICRO.space), "compact").text)
    under_schema = Sampling(max_tokens=160, json_schema=answer_schema(MICRO.space))
    try:
        scores, expected = engine.score(sequences), here.score(sequences)
        assert [len(score) for score in scores] == [49, 0, 3]
        assert np.concatenate(scores) == pytest.approx(np.concatenate(expected), abs=1e-3)
        assert engine.complete([question], under_schema) == here.complete([question], under_schema), (
            "the same grammar"
        )
        here.model.model.layers[0].mlp.up_proj.weight.data *= 1.05
        assert np.abs(np.concatenate(scores) - np.concatenate(here.score(sequences))).max() > 1e-2, (
            "other weights score otherwise"
        )
        told: list[Mapping[int, Completion]] = []
        drawn = Sampling(max_tokens=30, temperature=1.0, seed=2)
        whole = engine.complete([board, other, board, board, *[other] * 9], drawn, told.append)
        assert sorted(index for new in told for index in new) == list(range(13))
        assert len(told) > 1, "told as they are there"
        assert len({whole[index].text for index in range(4, 13)}) > 1, (
            "equal prompts get answers of their own"
        )
        assert engine.complete([other, board, board], drawn) == [whole[1], whole[0], whole[2]], (
            "whatever else is asked"
        )
        with pytest.raises(ModelError, match="exceed the model's 1000; lower max_tokens"):
            engine.complete([board, ask("x" * 990)], drawn)
        with pytest.raises(ModelError, match="a sequence of 1000 tokens cannot be scored; give 1 to 999"):
            engine.score([[1] * 1000])
    finally:
        engine.close()
