"""Engine on vLLM: one `vllm serve` on loopback, asked through the OpenAI-compatible client.

The child, `python -m policy.chat.vllm_server SOURCE TEMPLATE_KWARGS FOLDER OPTIONS`, starts vLLM with the
prompts and ends of `policy.chat.tokenizer`."""

import json
import os
import runpy
import secrets
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

from envgen.errors import ModelError
from envgen.processes import free_port
from policy.chat.contract import Completion, Conversation, Progress, Sampling
from policy.chat.endpoint import Endpoint
from policy.chat.engine import Engine
from policy.chat.engine_config import EngineConfig
from policy.checkpoints import resolve_model
from policy.child import TAIL_LINES, start_child, vllm_python
from policy.devices import visible_devices

START_SECONDS = 1_800
"""Longest time until the server answers: it may have to download and compile a large model."""
REQUEST_SECONDS = 3_600
_OPENING = "opening"
_NAME = "policy"
"""Name of the model at the server."""
# `vllm serve` of the package for CPUs fails, as it asks for the metadata of a package named vllm.
_MODULE = "vllm.entrypoints.openai.api_server"
_DEFAULTS = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    # Read on a CPU only: GiB of the key-value cache, and threads that may move, as two engines would be bound
    # to the same core.
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
"""Set unless the environment says otherwise."""


class VllmEngine(Engine):
    """A vLLM server, started by the first call."""

    def __init__(self, *arguments: Any) -> None:
        """ModelError if vLLM is not installed."""
        super().__init__(*arguments)
        self._python, self._url = vllm_python(), ""
        self._folder = self.log_path.with_name(f"{self.log_path.stem}-vllm")
        self._key = secrets.token_urlsafe()  # nobody else on this machine uses the server

    def _complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress
    ) -> None:
        if not conversations:
            return
        from policy.chat.openai_model import OpenAIModel  # the client library takes two seconds to import

        self._start()
        # Without retries: a server on this machine that refuses or ends does so again.
        endpoint = Endpoint(base_url=self._url, model=_NAME, timeout=REQUEST_SECONDS, retries=0)
        model = OpenAIModel(endpoint, self._key, concurrency=self.config.batch_size)
        opening = (self._folder / _OPENING).read_text()

        def add(new: Mapping[int, Completion]) -> None:
            progress({index: c.model_copy(update={"text": opening + c.text}) for index, c in new.items()})

        try:
            model.complete(conversations, sampling, add)
        except ModelError:
            assert self._child is not None
            # The server may be about to end, after the loss of its core.
            with suppress(subprocess.TimeoutExpired):
                raise self._ended(self._child.wait(timeout=2)) from None
            raise

    def _start(self) -> None:
        """Start the server and wait until it is healthy; ModelError has the last lines of its log."""
        if self._child is not None:
            return
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        port = free_port()
        self._url = f"http://127.0.0.1:{port}/v1"
        environment = {name: os.environ.get(name, value) for name, value in _DEFAULTS.items()}
        environment["VLLM_API_KEY"] = self._key
        source, options = resolve_model(self.source), json.dumps(self.template_kwargs)
        command = [source, options, str(self._folder), *arguments(source, self.config)]
        with open(self.log_path, "ab") as log:
            streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            command += ["--host", "127.0.0.1", "--port", str(port)]
            module = "policy.chat.vllm_server"
            self._child = start_child(module, command, environment, python=self._python, **streams)
        deadline = time.monotonic() + START_SECONDS
        while not is_healthy(f"http://127.0.0.1:{port}"):
            if self._child.poll() is not None or time.monotonic() > deadline:
                self.close()
                lines = self.log_path.read_text(errors="replace").splitlines()[-TAIL_LINES:]
                problem = f"{self.source}: vLLM does not start; its output is in {self.log_path}"
                last = "\n".join(["Last lines:", *lines])
                raise ModelError(f"{problem}. If it lacks memory, {self.config.less_memory}. {last}")
            time.sleep(0.5)


def arguments(model: str, config: EngineConfig) -> list[str]:
    """Command-line options of `vllm serve` for a model."""
    options: dict[str, object] = {
        "model": model,
        "served-model-name": _NAME,
        "dtype": config.dtype,
        "max-num-seqs": config.batch_size,
        "tensor-parallel-size": config.tensor_parallel,
        "data-parallel-size": config.data_parallel,
        "max-model-len": config.max_model_len,
        "gpu-memory-utilization": config.gpu_memory_utilization,
        "structured-outputs-config": '{"backend": "xgrammar"}',
    }
    flags = ["--disable-uvicorn-access-log"]
    if not visible_devices():  # compiling on a CPU takes a minute, and pays for large models only
        flags.append("--enforce-eager")
    pairs = [[f"--{name}", str(value)] for name, value in options.items() if value is not None]
    return [*(word for pair in pairs for word in pair), *flags]


def is_healthy(address: str) -> bool:
    """Whether a vLLM server answers there."""
    with suppress(OSError, ValueError, HTTPException):
        urllib.request.urlopen(f"{address}/health", timeout=5).close()
        return True
    return False


def main(source: str, template_kwargs: str, folder: str, *options: str) -> None:
    """Become a vLLM server; generation config, chat template and `opening` are written to the folder."""
    from transformers import AutoConfig, GenerationConfig

    from policy.chat.tokenizer import generation_config, load_tokenizer, opening

    tokenizer = load_tokenizer(source, json.loads(template_kwargs))
    try:
        loaded = GenerationConfig.from_pretrained(source)
    except OSError:
        loaded = GenerationConfig.from_model_config(AutoConfig.from_pretrained(source))
    generation_config(tokenizer, loaded).save_pretrained(folder)
    (Path(folder) / _OPENING).write_text(opening(tokenizer))
    template = Path(folder) / "chat_template.jinja"
    template.write_text(tokenizer.get_chat_template())
    sys.argv[1:] = [*options, "--generation-config", folder, "--chat-template", str(template)]
    runpy.run_module(_MODULE, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
