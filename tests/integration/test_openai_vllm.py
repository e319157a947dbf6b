"""The `openai` engineer asks a real vLLM server on CPU that serves the shipped policy.

`make vllm` installs the server into `.venv-vllm`; ENVWRIGHT_VLLM_PYTHON names another interpreter. `make
test-all` sets ENVWRIGHT_VLLM_REQUIRED, so that a missing server fails there."""

import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.prefect_servers import free_port, vllm_or_skip

from engineer.engineers.registry import resolve
from engineer.lessons import TAUGHT, random_context
from engineer.propose import design
from engineer.spec import EngineerSpec
from infra.config.preset import load_preset
from policy.checkpoints import TINY_DIRECTORY
from policy.child import stop_child

BASE_POLICY = 300
"""Seconds that the server may take to start."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a vLLM server."""
    python = vllm_or_skip()
    port, folder = free_port(), tmp_path_factory.mktemp("vllm")
    # PYTHONPATH would show the server this checkout's libraries.
    environment = {
        name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}
    }
    environment |= {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
    }
    environment |= {"VLLM_CACHE_ROOT": str(folder / "cache")}
    command = [
        str(python),
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        str(TINY_DIRECTORY),
        "--served-model-name",
        "tiny",
    ]
    command += [
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--dtype",
        "float32",
        "--max-model-len",
        "1024",
        "--max-num-seqs",
        "4",
        "--enforce-eager",
    ]
    with open(folder / "server.log", "w") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=log, process_group=0
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", process, folder / "server.log")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        stop_child(process)
        _kill_group(process.pid)


def _wait_for(url: str, process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + BASE_POLICY
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            assert process.poll() is None, log.read_text()[-4000:]
            assert time.monotonic() < deadline, (
                f"the server did not start within {BASE_POLICY} s: {log.read_text()[-4000:]}"
            )
            time.sleep(0.5)


def _kill_group(group: int) -> None:
    """End the engine's processes too, which may outlive the one that started them."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_vllm_server_designs_legal_configs_under_the_schema(server: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    space = load_preset("tiny").space
    options = {"base_url": server, "model": "tiny", "timeout": 60, "prompt_price": 1, "completion_price": 2}
    for number, variant in enumerate(TAUGHT):
        context = random_context(np.random.default_rng(number), space)
        spec = resolve(
            EngineerSpec(name="openai", variant=variant, wording="compact", options=options, max_tokens=256),
            space,
            3,
        )
        proposal = design(spec, context, 0, None, lambda config: (config, []))
        assert proposal.fallback is None, proposal.fallback
        assert [(a.error, a.finish_reason) for a in proposal.attempts] == [(None, "stop")]
        assert tuple(proposal.config.strata) == space.names
        assert proposal.rationale
        assert proposal.proposed
        assert proposal.prompt_tokens > 50
        assert proposal.completion_tokens > 20
        assert (proposal.requests, proposal.cost) == (
            1,
            pytest.approx((proposal.prompt_tokens + 2 * proposal.completion_tokens) / 1e6),
        )


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_vllm_server_that_refuses_the_request_costs_only_the_redesign(server: str):
    context = random_context(np.random.default_rng(0), load_preset("tiny").space)
    for model, max_tokens, reason in (("large", 256, "status 404"), ("tiny", 2000, "status 400")):
        spec = EngineerSpec(
            name="openai",
            options={"base_url": server, "model": model},
            wording="compact",
            max_tokens=max_tokens,
        )
        proposal = design(spec, context, 0, None, lambda config: (config, []))
        assert proposal.config == context.current.config
        assert reason in (proposal.fallback or "")
