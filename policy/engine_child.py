"""The child of `policy.engine`: loads a model, answers requests on standard input until it is closed."""

import json
import os
import sys
from collections.abc import Callable

from envgen.errors import ModelError
from policy.chat import ChatModel
from policy.engine import Reply, Request


def main(spec: dict) -> None:
    """Answer requests, one line each. Standard output carries replies only; whatever libraries print goes to standard error."""
    replies = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)

    def reply(**fields: object) -> None:
        replies.write(Reply.model_validate(fields).model_dump_json() + "\n")

    model = None
    for line in sys.stdin:
        request = Request.model_validate_json(line)
        try:
            model = model or _load(spec)
            reply(completions=model.complete(request.conversations, request.sampling, progress=_reporter(reply)))
        except ModelError as error:
            reply(error=str(error))


def _load(spec: dict) -> ChatModel:
    from policy.transformers_model import TransformersModel

    return TransformersModel(spec["source"], batch_size=spec["batch_size"], dtype=spec["dtype"])


def _reporter(reply: Callable[..., None]) -> Callable[[int], None]:
    return lambda done: reply(done=done)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
