"""A model behind an endpoint, what it answers, and what it says when it cannot."""

import pickle
import traceback
from typing import Any

import pytest
from support.misbehaving_endpoint import Handler, drips_body, drips_headers, hangs

from envgen.errors import ModelError
from policy.chat.contract import Completion, Sampling, ask
from policy.chat.endpoint import Endpoint
from policy.chat.openai_model import CONCURRENCY, OpenAIModel

KEY = "sk-secret-0123456789abcdef"
QUICK = {"model": "m", "timeout": 20, "retries": 2, "backoff": 0.01, "max_wait": 0.2}
GREEDY = Sampling(max_tokens=9)
SLOW = (hangs, drips_body, drips_headers)


def model_at(url: str, key: str = KEY, concurrency: int = CONCURRENCY, **options: Any) -> OpenAIModel:
    return OpenAIModel(
        Endpoint.model_validate({"base_url": url, **QUICK, **options}), key, concurrency=concurrency
    )


def asked(model: OpenAIModel) -> Completion:
    """The answer to a question."""
    [found] = model.complete([ask("Well?")], GREEDY)
    return found


def failure(model: OpenAIModel) -> str:
    """What the model says when it cannot answer; the key is nowhere in it, nor does it hold on to the
    request."""
    with pytest.raises(ModelError) as raised:
        asked(model)
    error = raised.value
    assert error.__context__ is None
    assert error.__cause__ is None
    assert KEY not in "".join(traceback.format_exception(error))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert len(str(error)) < 1000
    return str(error)


def content(handler: Handler) -> str:
    return handler.question["messages"][0]["content"]
