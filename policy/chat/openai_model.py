"""A chat model behind an OpenAI-compatible endpoint, over the retries and timeouts of the `openai` library.

The key leaves only in its header: it is taken out of every text that a server sends.
"""

import json
import logging
from collections.abc import Sequence
from concurrent.futures import as_completed
from typing import Any

import openai
from anyio import Semaphore, fail_after
from anyio.from_thread import start_blocking_portal
from pydantic import BaseModel, Field, ValidationError, model_validator

from envgen.errors import ModelError
from envgen.seeds import seed_integer
from policy.chat.contract import Completion, Conversation, Progress, Sampling, equal_groups
from policy.chat.endpoint import Endpoint

CONCURRENCY = 16
"""Conversations that are asked at the same time."""
QUOTED = 200
"""Maximum length of a server's words in an error message."""
PLACEHOLDER = 8
"""A shorter key is a placeholder for a local server; removing it from texts would garble them."""
MAX_TOKENS = 10**9
MAX_RETRY_WAIT = 60
"""Longest wait before a retry, in seconds; the library ignores a longer `Retry-After`."""
_REFUSED = (
    "if the prompt is too long, lower max_tokens; if the server lacks JSON schemas, set schema_decoding to "
    "false; if it does not know seed, set seed to false; if it names the limit of an answer differently, set "
    "token_limit; if it refuses the temperature, set engineer.temperature"
)
REMEDIES = {
    **dict.fromkeys(range(300, 400), "set base_url to the address it redirects to"),
    **dict.fromkeys((400, 422), _REFUSED),
    404: "check base_url (usually ending in /v1) and model",
    429: "wait, raise retries, or check the quota of the key",
}
"""Status of a response -> what to do."""
_WRITTEN = ("text", "output_text")


class OpenAIModel:
    """A `ChatModel`: one request a conversation, repeated on timeouts, lost connections and status 408, 409,
    429 or 5xx, and without the JSON schema on status 400 or 422.

    `requests` counts the requests sent so far, failed ones included.
    """

    def __init__(self, endpoint: Endpoint, key: str, *, concurrency: int = CONCURRENCY) -> None:
        self.endpoint, self.concurrency, self.requests = endpoint, concurrency, 0
        self._key, self._knows_schemas = key, True
        # These log headers and status lines as the server sent them, and a server may repeat the key there.
        for name in ("httpcore", "httpx", "httpcore2", "httpx2", "openai"):
            logging.getLogger(name).setLevel(logging.WARNING)

    def complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress | None = None
    ) -> list[Completion]:
        """Complete every conversation, `concurrency` at a time; ModelError names endpoint, error and remedy.

        After a failure no further conversation is asked; requests under way are awaited and reported, since
        they are paid for. Equal conversations are sampled with different seeds.
        """
        completions: dict[int, Completion] = {}
        failures: list[str] = []
        requests = self._requests(conversations, sampling)
        with start_blocking_portal() as portal, portal.wrap_async_context_manager(self._client()) as client:
            slots = Semaphore(self.concurrency)

            async def answer(request: dict[str, Any]) -> Completion | None:
                async with slots:
                    try:
                        return None if failures else await self._ask(client, request)
                    except Exception as error:  # a server can make the client raise anything
                        failures.append(self._describe(error))
                        return None

            tasks = {portal.start_task_soon(answer, requests[index]): index for index in sorted(requests)}
            for task in as_completed(tasks):
                if (completion := task.result()) is not None:
                    completions[tasks[task]] = completion
                    if progress:
                        progress({tasks[task]: completion})
        if failures:
            # Raised outside of the handler: the client's exception holds the request with its headers.
            raise ModelError(f"{self.endpoint.base_url}: model {self.endpoint.model!r}: {failures[0]}")
        return [completions[index] for index in range(len(conversations))]

    def _client(self) -> openai.AsyncOpenAI:
        async def count(request: Any) -> None:
            self.requests += 1

        hooks = {"request": [count]}
        return openai.AsyncOpenAI(
            api_key=self._key or "none",
            base_url=self.endpoint.base_url,
            timeout=self.endpoint.timeout,
            max_retries=self.endpoint.retries,
            http_client=openai.DefaultAsyncHttpxClient(follow_redirects=False, event_hooks=hooks),
        )

    def _requests(
        self, conversations: Sequence[Conversation], sampling: Sampling
    ) -> dict[int, dict[str, Any]]:
        """The request of each conversation; a sampled one's seed depends on its words, so that chance is not
        shared by all, and on the rank among equal ones."""
        options: dict[str, Any] = {
            "model": self.endpoint.model,
            "temperature": sampling.temperature,
            self.endpoint.token_limit: sampling.max_tokens,
        }
        if sampling.top_p < 1:
            options["top_p"] = sampling.top_p
        if sampling.json_schema is not None and self._knows_schemas:
            schema = {"name": "answer", "schema": _portable(sampling.json_schema)}
            options["response_format"] = {"type": "json_schema", "json_schema": schema}
        requests = {}
        for group in equal_groups(conversations):
            messages = [message.model_dump() for message in conversations[group[0]]]
            for rank, index in enumerate(group):
                drawn = seed_integer(sampling.seed, str(messages), rank)
                seed = drawn if sampling.temperature else sampling.seed
                seeds = {"seed": seed % 2**31} if self.endpoint.seed else {}
                requests[index] = {**options, "messages": messages, **seeds}
        return requests

    async def _ask(self, client: openai.AsyncOpenAI, request: dict[str, Any]) -> Completion:
        try:
            content = await self._send(client, request)
        except (openai.BadRequestError, openai.UnprocessableEntityError):
            if request.pop("response_format", None) is None:
                raise
            content = await self._send(client, request)
            self._knows_schemas = False
        reply = _Reply.model_validate_json(content)
        choice = reply.choices[0]
        return Completion(
            text=self._without_key(choice.message.content or ""),
            prompt_tokens=reply.tokens("prompt_tokens"),
            completion_tokens=reply.tokens("completion_tokens"),
            finish_reason="length" if choice.finish_reason in {"length", "content_filter"} else "stop",
            reasoning=self._without_key(choice.message.thoughts),
            reasoning_tokens=reply.tokens("completion_tokens_details", "reasoning_tokens"),
        )

    async def _send(self, client: openai.AsyncOpenAI, request: dict[str, Any]) -> bytes:
        # The library's timeout starts anew with every byte that arrives.
        retries, timeout = self.endpoint.retries, self.endpoint.timeout
        with fail_after((retries + 1) * timeout + retries * MAX_RETRY_WAIT):
            response = await client.chat.completions.with_raw_response.create(**request)
        return response.content

    def _describe(self, error: Exception) -> str:
        """The reason of a failed request and its remedy, without the key."""
        if isinstance(error, (TimeoutError, openai.APITimeoutError)):
            return f"no complete answer within {self.endpoint.timeout:g} s; raise timeout if it is too short"
        if isinstance(error, openai.APIStatusError):
            status, remedy = error.status_code, REMEDIES.get(error.status_code, "")
            if status in {401, 403}:
                unset = "" if self._key else "; it is not set"
                remedy = f"set the environment variable {self.endpoint.api_key_env} to a valid key{unset}"
            return f"status {status}, {self._quoted(error.response.text)}{remedy and f'; {remedy}'}"
        if isinstance(error, ValidationError):
            problem = error.errors(include_input=False)[0]
            field = ".".join(str(part) for part in problem["loc"]) or "the body"
            words = self._quoted(problem["msg"])
            return f"the response is no chat completion: {field}: {words}; check base_url"
        reason = error.__cause__ or error
        words = self._quoted(str(reason))
        return f"no answer: {type(reason).__name__}: {words}; check base_url and whether the server runs"

    def _without_key(self, text: str) -> str:
        if len(self._key) < PLACEHOLDER:
            return text
        return text.replace(self._key, "[key]").replace(json.dumps(self._key)[1:-1], "[key]")

    def _quoted(self, text: str) -> str:
        """The start of a server's words; the key is removed before the cut could leave half of it."""
        text = "".join(c if c.isprintable() else " " for c in self._without_key(text))
        return repr(text if len(text) <= QUOTED else text[: QUOTED - 3] + "...")


def _portable(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without the bounds that strict servers refuse."""
    portable = {key: part for key, part in schema.items() if key not in {"minimum", "maximum", "maxLength"}}
    if "properties" in portable:
        portable["properties"] = {name: _portable(part) for name, part in schema["properties"].items()}
    return portable


def _joined(parts: list[Any]) -> str:
    """Return the texts of a list of parts; parts of other types are left out."""
    written = [part for part in parts if not isinstance(part, dict) or part.get("type", "text") in _WRITTEN]
    texts = [part.get("text") if isinstance(part, dict) else part for part in written]
    return "".join(text for text in texts if isinstance(text, str))


class _Message(BaseModel):
    content: str | None = None
    reasoning_content: Any = None
    reasoning: Any = None

    @model_validator(mode="before")
    @classmethod
    def _join(cls, fields: Any) -> Any:
        parts = fields.get("content") if isinstance(fields, dict) else None
        if not isinstance(parts, list):
            return fields
        thinking = [part.get("thinking") for part in parts if isinstance(part, dict)]
        thoughts = [part for item in thinking for part in (item if isinstance(item, list) else [item])]
        return {"reasoning": _joined(thoughts), **fields, "content": _joined(parts)}

    @property
    def thoughts(self) -> str:
        """Thoughts apart from the content; empty without any."""
        texts = (self.reasoning_content, self.reasoning)
        return next((text for text in texts if text and isinstance(text, str)), "")


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Reply(BaseModel):
    choices: list[_Choice] = Field(min_length=1)
    usage: Any = None

    def tokens(self, *keys: str) -> int | None:
        """Return a reported number of tokens; None without one that makes sense."""
        count: Any = self.usage
        for key in keys:
            count = count.get(key) if isinstance(count, dict) else None
        if type(count) not in (int, float) or not 0 <= count <= MAX_TOKENS or count != int(count):
            return None
        return int(count)
