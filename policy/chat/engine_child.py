"""The child of `policy.chat.replica`: loads a model, answers requests on standard input until it closes."""

import json
import os
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING

from envgen.errors import ModelError
from envgen.processes import die_with_parent
from policy.chat.engine_config import EngineConfig
from policy.chat.replica import Reply, Request

if TYPE_CHECKING:
    from policy.chat.local_model import LocalModel


def main(spec: dict) -> None:
    """Answer requests until there are no more; an error that ends it is told before.

    Whatever libraries print on standard output goes to standard error.
    """
    requests: SimpleQueue[str] = SimpleQueue()
    lines = _own("r", 0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    replies = _own("w", 1)
    os.dup2(2, 1)
    threading.Thread(target=_read, args=(lines, requests), daemon=True).start()

    def reply(**fields: object) -> None:
        replies.write(Reply.model_validate(fields).model_dump_json(exclude_defaults=True) + "\n")
        replies.flush()

    try:
        _answer(spec, requests, reply)
    except Exception as error:
        # Whether memory ran out is judged where all libraries are; a bare MemoryError says nothing else.
        said = "out of memory" if isinstance(error, MemoryError) and not str(error) else str(error)
        reply(last_words=f"{type(error).__name__}: {said}")
        raise


def _answer(spec: dict, requests: SimpleQueue[str], reply: Callable[..., None]) -> None:
    """Answer requests, one line each, of which more may come at any time."""
    model: LocalModel | None = None
    while True:
        while not (model and model.waiting) or not requests.empty():
            line = requests.get()
            if not line:
                return
            request = Request.model_validate_json(line)
            try:
                model = model or _load(spec)
                _take(model, request, reply)
            except ModelError as error:
                reply(error=str(error), refused=[*request.conversations, *request.sequences])
        if finished := model.step():
            reply(completions=finished)


def _own(mode: str, descriptor: int) -> IO[str]:
    """A pipe of this process under a number of its own, as libraries and forks touch the standard one."""
    return os.fdopen(os.dup(descriptor), mode, encoding="utf-8")


def _read(lines: IO[str], requests: SimpleQueue[str]) -> None:
    for line in lines:
        requests.put(line)
    requests.put("")


def _load(spec: dict) -> "LocalModel":
    config = EngineConfig.model_validate(spec["config"])
    _note(f"loads {spec['source']} with {config.backend}")
    if config.backend == "vllm":
        from policy.chat.vllm_model import VllmModel

        return VllmModel(spec["source"], config)
    from policy.chat.transformers_model import TransformersModel

    return TransformersModel(spec["source"], batch_size=config.batch_size, dtype=config.dtype)


def _take(model: "LocalModel", request: Request, reply: Callable[..., None]) -> None:
    if request.sequences:
        _note(f"scores {len(request.sequences)} sequences")
        scores = model.score(list(request.sequences.values()))
        reply(scores=dict(zip(request.sequences, scores, strict=True)))
    if request.sampling is not None:
        under = " under a schema" if request.sampling.json_schema is not None else ""
        asked, limit = len(request.conversations), request.sampling.max_tokens
        _note(f"is asked for {asked} answers of up to {limit} tokens{under}")
        model.add(request.conversations, request.sampling)


def _note(words: str) -> None:
    """Say something in the log."""
    print(f"engine {os.getpid()}: {words}", file=sys.stderr, flush=True)


def _die_together() -> None:
    """Let this process die with the one that started it."""
    die_with_parent(os.getppid())


if __name__ == "__main__":
    # vLLM runs its core in processes of their own, forked or started anew, which would hold the GPU for
    # seconds after the end of this one.
    os.register_at_fork(after_in_child=_die_together)
    main(json.loads(sys.argv[1]))
elif __name__ == "__mp_main__":
    _die_together()
