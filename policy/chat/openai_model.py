"""Chat model behind an OpenAI-compatible endpoint, over the retries and timeouts of the `openai` library."""

import json
import logging
from collections.abc import Sequence
from concurrent.futures import as_completed
from typing import Annotated, Any

import openai
from anyio import Semaphore, fail_after
from anyio.from_thread import start_blocking_portal
from pydantic import AliasPath, BaseModel, BeforeValidator, Field, ValidationError

from envgen.errors import ModelError
from envgen.seeds import seed_integer
from policy.chat.contract import Completion, Conversation, Progress, Sampling, equal_groups
from policy.chat.endpoint import Endpoint

CONCURRENCY = 16
"""Default number of conversations that are asked at the same time."""
QUOTED = 200
"""Maximum length of a server's words in an error message."""
MAX_RETRY_WAIT = 60
"""Longest wait before a retry, in seconds; the library ignores a longer `Retry-After`."""
REMEDIES = {
    400: "lower max_tokens if the prompt is too long, or change schema_decoding, seed, token_limit or the"
    " temperature, whichever the server refuses",
    401: "set the environment variable {api_key_env} to a valid key",
    404: "check base_url (usually ending in /v1) and model",
    429: "wait, raise retries, or check the quota of the key",
}
"""Status of a response -> what to do."""


class OpenAIModel:
    """A `ChatModel`: one request a conversation, repeated by the library after a timeout, a lost connection
    or status 408, 409, 429 or 5xx, and repeated without the JSON schema after status 400 or 422. `requests`
    counts them, failed requests included."""

    def __init__(self, endpoint: Endpoint, key: str, *, concurrency: int = CONCURRENCY) -> None:
        self.endpoint, self.concurrency, self.requests = endpoint, concurrency, 0
        self._key, self._knows_schemas = key, True
        # These log headers and status lines, in which a server may repeat the key.
        for name in ("httpcore", "httpx", "httpcore2", "httpx2", "openai"):
            logging.getLogger(name).setLevel(logging.WARNING)

    def complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress | None = None
    ) -> list[Completion]:
        """Complete every conversation, `concurrency` at a time; ModelError names endpoint, error and remedy.
        After a failure no other conversation is asked, and requests under way are awaited and reported."""
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

        return openai.AsyncOpenAI(
            api_key=self._key or "none",
            base_url=self.endpoint.base_url,
            timeout=self.endpoint.timeout,
            max_retries=self.endpoint.retries,
            http_client=openai.DefaultAsyncHttpxClient(event_hooks={"request": [count]}),
        )

    def _requests(
        self, conversations: Sequence[Conversation], sampling: Sampling
    ) -> dict[int, dict[str, Any]]:
        """Map each conversation to its request; a seed depends on its rank among equal conversations."""
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
            reply = await self._send(client, request)
        except (openai.BadRequestError, openai.UnprocessableEntityError):
            if request.pop("response_format", None) is None:
                raise
            reply = await self._send(client, request)
            self._knows_schemas = False
        return Completion(
            text=reply.content or "",
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            finish_reason="length" if reply.finish_reason in {"length", "content_filter"} else "stop",
            reasoning=reply.reasoning_content or reply.reasoning or "",
            reasoning_tokens=reply.reasoning_tokens,
        )

    async def _send(self, client: openai.AsyncOpenAI, request: dict[str, Any]) -> "_Reply":
        # The library's timeout starts anew with every byte that arrives.
        retries, timeout = self.endpoint.retries, self.endpoint.timeout
        with fail_after((retries + 1) * timeout + retries * MAX_RETRY_WAIT):
            response = await client.chat.completions.with_raw_response.create(**request)
        return _Reply.model_validate_json(response.content)

    def _describe(self, error: Exception) -> str:
        """Return the reason of a failed request and its remedy, without the key."""
        if isinstance(error, (TimeoutError, openai.APITimeoutError)):
            return f"no complete answer within {self.endpoint.timeout:g} s; raise timeout if it is too short"
        if isinstance(error, openai.APIStatusError):
            status = {403: 401, 422: 400}.get(error.status_code, error.status_code)
            remedy = REMEDIES.get(status, "").format(api_key_env=self.endpoint.api_key_env)
            words = f"status {error.status_code}, {self._quoted(error.response.text)}"
            return f"{words}; {remedy}" if remedy else words
        if isinstance(error, ValidationError):
            problem = error.errors(include_input=False)[0]
            field = ".".join(map(str, problem["loc"])) or "the body"
            words = self._quoted(problem["msg"])
            return f"the response is no chat completion: {field}: {words}; check base_url"
        reason = error.__cause__ or error
        words = self._quoted(str(reason))
        return f"no answer: {type(reason).__name__}: {words}; check base_url and whether the server runs"

    def _quoted(self, text: str) -> str:
        """Quote the start of a server's words; the key is removed before the cut could leave half of it."""
        if len(self._key) >= 8:  # a shorter key is a placeholder for a local server
            text = text.replace(self._key, "[key]").replace(json.dumps(self._key)[1:-1], "[key]")
        text = "".join(c if c.isprintable() else " " for c in text)
        return repr(text if len(text) <= QUOTED else text[: QUOTED - 3] + "...")


def _portable(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without the bounds that strict servers refuse."""
    portable = {key: part for key, part in schema.items() if key not in {"minimum", "maximum", "maxLength"}}
    if "properties" in portable:
        portable["properties"] = {name: _portable(part) for name, part in schema["properties"].items()}
    return portable


def _joined(content: Any) -> Any:
    """Return the texts of a content in parts as one text, without thoughts and images; others as they are."""
    if not isinstance(content, list):
        return content
    parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return "".join(str(part.get("text", "")) for part in parts)


_MESSAGE = ("choices", 0, "message")


def _at(first: str, *more: str | int, **bounds: Any) -> Any:
    """Return a field that is read from a path of the response; None where the path leads nowhere."""
    return Field(default=None, validation_alias=AliasPath(first, *more), **bounds)


class _Reply(BaseModel):
    message: dict[str, Any] = Field(validation_alias=AliasPath(*_MESSAGE))
    """Refuses what has none; its parts are the next three fields."""
    content: Annotated[str | None, BeforeValidator(_joined)] = _at(*_MESSAGE, "content")
    reasoning_content: str | None = _at(*_MESSAGE, "reasoning_content")
    reasoning: str | None = _at(*_MESSAGE, "reasoning")
    finish_reason: str | None = _at("choices", 0, "finish_reason")
    prompt_tokens: int | None = _at("usage", "prompt_tokens", ge=0)
    completion_tokens: int | None = _at("usage", "completion_tokens", ge=0)
    reasoning_tokens: int | None = _at("usage", "completion_tokens_details", "reasoning_tokens", ge=0)
