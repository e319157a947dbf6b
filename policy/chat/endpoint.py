"""Where an OpenAI-compatible endpoint is and how patiently it is asked. Imports no client library."""

import os
import re
from typing import Literal

from pydantic import ConfigDict, Field

from envgen.errors import ModelError
from envgen.frozen import Frozen

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,99}")
_ADDRESS = re.compile(r"https?://(\[[\da-fA-F:]+\]|[\w.-]+)(:\d{1,5})?(/[\w./~%+-]*)?", re.ASCII)


class Endpoint(Frozen):
    """An endpoint, a model there, the environment variable of its key, and the patience of its caller."""

    model_config = ConfigDict(allow_inf_nan=False)
    base_url: str = "https://api.openai.com/v1"
    """Address up to `/v1`, as `http://localhost:8000/v1`."""
    model: str = ""
    """Name of the model at the endpoint; has to be given."""
    api_key_env: str = "OPENAI_API_KEY"
    """Environment variable that holds the key; a server without keys needs none. Default OPENAI_API_KEY."""
    timeout: float = Field(default=120, gt=0, le=3600)
    """Seconds that a request may take; above 0 to 3600, default 120."""
    retries: int = Field(default=4, ge=0, le=20)
    """Further requests after a timeout, a lost connection, or status 408, 409, 429 or 5xx; 0 to 20, default
    4. The wait between them grows from half a second; a `Retry-After` up to a minute is obeyed."""
    token_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What the endpoint calls the limit of an answer; OpenAI's newer models want `max_completion_tokens`."""
    seed: bool = True
    """Send a seed below 2^31; false for endpoints that refuse it, default true."""


def check_endpoint(endpoint: Endpoint) -> None:
    """ValueError if the address is none, or a key may have been given; the message repeats neither."""
    # Checked here and not by the fields, whose errors show the value: it may be a key in the wrong place.
    if not 0 < len(endpoint.model) <= 500:
        raise ValueError("model: expected the name of a model at the endpoint, of at most 500 characters")
    if not _VARIABLE.fullmatch(endpoint.api_key_env):
        expected = "the name of an environment variable (capitals, digits, underscores), never the key itself"
        raise ValueError(f"api_key_env: expected {expected}")
    if not _ADDRESS.fullmatch(endpoint.base_url) or len(endpoint.base_url) > 500:
        expected = "an address as http://localhost:8000/v1, without user, password, query or fragment"
        raise ValueError(f"base_url: expected {expected}; the key belongs in the variable api_key_env")


def read_key(endpoint: Endpoint) -> str:
    """Return the key in the environment, or nothing; ModelError if it cannot be one."""
    key = os.environ.get(endpoint.api_key_env, "").strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        problem = f"the environment variable {endpoint.api_key_env} holds characters that no key has"
        raise ModelError(f"{problem}; set it to the key alone")
    return key
