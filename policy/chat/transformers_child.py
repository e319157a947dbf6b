"""The child of `policy.chat.transformers_engine`: loads a model, answers requests until its input closes."""

import os
import sys

from envgen.errors import ModelError
from policy.chat.transformers_engine import Reply, Request
from policy.chat.transformers_model import TransformersModel


def main(source: str, dtype: str, batch_size: int) -> None:
    """Answer one request a line; an error that is no ModelError is reported and ends the process.

    Whatever libraries print on standard output goes to standard error.
    """
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)

    def reply(**fields: object) -> None:
        replies.write(Reply.model_validate(fields).model_dump_json(exclude_defaults=True) + "\n")
        replies.flush()

    model: TransformersModel | None = None
    for line in requests:
        request = Request.model_validate_json(line)
        try:
            if model is None:
                _log(f"loads {source}")
                model = TransformersModel(source, batch_size=batch_size, dtype=dtype)
            scores = []
            if request.sampling is None:
                _log(f"scores {len(request.sequences)} sequences")
                scores = model.score(request.sequences)
            else:
                limit = request.sampling.max_tokens
                _log(f"completes {len(request.conversations)} conversations by up to {limit} tokens")
                model.complete(request.conversations, request.sampling, lambda new: reply(completions=new))
            reply(scores=scores, done=True)
        except ModelError as error:
            reply(error=str(error))
        except Exception as error:
            words = "out of memory" if isinstance(error, MemoryError) and not str(error) else str(error)
            reply(error=f"{source}: {type(error).__name__}: {words}", ends=True)
            raise


def _log(words: str) -> None:
    print(f"engine {os.getpid()}: {words}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
