"""A chat model behind an OpenAI-compatible endpoint.

Time and memory of a call are bounded whatever the server does, and the key leaves only in its header.
"""

import logging
import math
import re
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import as_completed
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2
import openai
from anyio import Semaphore, fail_after
from anyio.from_thread import start_blocking_portal
from pydantic import BaseModel, Field, ValidationError
from pydantic_core import from_json
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_random_exponential,
)

from envgen.errors import ModelError
from policy.chat.contract import Completion, Conversation, Progress, Sampling
from policy.chat.endpoint import Endpoint

MAX_BODY = 1_000_000
"""Bytes of a response that are read at most."""
MAX_TOKENS = 10**9
CONCURRENCY = 16
"""Conversations that are asked at the same time."""
QUOTED = 200
"""Characters of a server's words in a message at most."""
SECRET = 8
"""A shorter key is a placeholder that a local server was given; taking it out of texts would garble them."""


class Usage(BaseModel):
    """What an endpoint was asked for so far, failed requests included."""

    requests: int = 0
    prompt_tokens: int = 0
    """As reported by the server."""
    completion_tokens: int = 0


class OpenAIModel:
    """A `ChatModel`: one request a conversation, repeated while the reason of its failure may pass."""

    def __init__(
        self, endpoint: Endpoint, key: str, *, empty_answers: bool = False, concurrency: int = CONCURRENCY
    ) -> None:
        """With `empty_answers` an empty answer is one, to be judged.

        Without, it is asked for again, and is a ModelError at last. `concurrency` is how many conversations,
        of several, are asked at the same time.
        """
        self.endpoint, self.concurrency = endpoint, concurrency
        self._key, self._empty_answers = key, empty_answers
        self._secret = _pattern(key) if len(key) >= SECRET else None
        self.usage = Usage()

    def complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress | None = None
    ) -> list[Completion]:
        """Complete every conversation, `concurrency` at a time; ModelError names endpoint, error and remedy.

        After a failure no further one is asked; answers under way are awaited and told, as they are paid for.
        """
        done: dict[int, Completion] = {}
        failures: list[str] = []
        # Only a cancelled task ends with its deadline: the client's read timeout starts anew with each byte.
        with start_blocking_portal() as portal, portal.wrap_async_context_manager(self._client()) as client:
            places = Semaphore(self.concurrency)

            async def answer(conversation: Conversation) -> Completion | str | None:
                async with places:
                    found = None if failures else await self._answer(client, conversation, sampling)
                    if isinstance(found, str):
                        failures.append(found)
                    return found

            asked = {portal.start_task_soon(answer, one): n for n, one in enumerate(conversations)}
            for future in as_completed(asked):
                if isinstance(found := future.result(), Completion):
                    done[asked[future]] = found
                    if progress:
                        progress({asked[future]: found})
        if failures:
            # Raised here, free of the client's exceptions, which hold the request with its headers.
            raise ModelError(failures[0])
        return [done[index] for index in range(len(conversations))]

    def _client(self) -> openai.AsyncOpenAI:
        # These log status lines and headers as the server sent them, and a server may repeat the key there.
        for name in ("httpcore2", "httpx2", "openai"):
            logging.getLogger(name).setLevel(logging.WARNING)
        return openai.AsyncOpenAI(
            api_key=self._key or "none",
            base_url=self.endpoint.base_url,
            timeout=None,
            max_retries=0,
            default_headers={"Accept-Encoding": "identity"},
            http_client=openai.DefaultAsyncHttpxClient(
                follow_redirects=False, event_hooks={"response": [_bound]}
            ),
        )

    async def _answer(
        self, client: openai.AsyncOpenAI, conversation: Conversation, sampling: Sampling
    ) -> Completion | str:
        """The completion, or why there is none."""
        retrying = AsyncRetrying(
            stop=stop_after_attempt(self.endpoint.retries + 1),
            wait=self._wait,
            retry=retry_if_exception(lambda error: isinstance(error, _Trouble) and error.may_pass),
            reraise=True,
        )
        try:
            return await retrying(self._request, client, conversation, sampling)
        except _Trouble as trouble:
            sent = retrying.statistics["attempt_number"]
            return (
                f"{self.endpoint.base_url}: model {self.endpoint.model!r}: {trouble} (requests sent: {sent})"
            )

    async def _request(
        self, client: openai.AsyncOpenAI, conversation: Conversation, sampling: Sampling
    ) -> Completion:
        self.usage.requests += 1
        question = self._question(conversation, sampling)
        try:
            with fail_after(self.endpoint.timeout):
                raw = await client.chat.completions.with_raw_response.create(**question)
                body = raw.content
        except Exception as error:  # whatever a server can make the client raise
            raise self._trouble(error) from None
        return self._completion(body)

    def _question(self, conversation: Conversation, sampling: Sampling) -> dict[str, Any]:
        question: dict[str, Any] = {
            "model": self.endpoint.model,
            "messages": [message.model_dump() for message in conversation],
            "temperature": sampling.temperature,
            "seed": sampling.seed,
            self.endpoint.token_limit: sampling.max_tokens,
        }
        if sampling.json_schema is not None:
            schema = {"name": "answer", "strict": True, "schema": sampling.json_schema}
            question["response_format"] = {"type": "json_schema", "json_schema": schema}
        return question

    def _completion(self, body: bytes) -> Completion:
        """The answer in a body; what the body reports as used counts even if there is no answer."""
        try:
            value = from_json(body, allow_inf_nan=False)
        except ValueError:
            raise _Trouble(f"the body is no JSON: {self._quoted(body)}") from None
        prompt_tokens = _tokens(value, "prompt_tokens")
        completion_tokens = _tokens(value, "completion_tokens")
        self.usage.prompt_tokens += prompt_tokens
        self.usage.completion_tokens += completion_tokens
        try:
            choice = _Reply.model_validate(value).choices[0]
        except ValidationError as error:
            problem = error.errors(include_input=False)[0]
            where = ".".join(str(part) for part in problem["loc"]) or "the body"
            raise _Trouble(
                f"the body is no chat completion: {where}: {problem['msg']}; got {self._quoted(body)}"
            ) from None
        finish = "length" if choice.finish_reason in {"length", "content_filter"} else "stop"
        text = choice.message.content or ""
        # An empty answer of full length would be empty again: the model spent its tokens out of sight.
        if not text and finish == "stop" and not self._empty_answers:
            raise _Trouble(f"the answer is empty; got {self._quoted(body)}")
        return Completion(
            text=self._redacted(text),
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            finish_reason=finish,
        )

    def _trouble(self, error: Exception) -> "_Trouble":
        """What went wrong in a request, in our words."""
        for known in (error, error.__cause__):
            if isinstance(known, _Trouble):
                return known
        if isinstance(error, TimeoutError):
            limit = f"{self.endpoint.timeout:g} s"
            return _Trouble(f"no complete answer within {limit}; raise timeout if that is too short")
        if isinstance(error, openai.APIStatusError):
            status, words = error.status_code, self._quoted(error.response.content)
            return _Trouble(
                f"status {status}, {words}{self._remedy(status)}",
                may_pass=status in {408, 409, 429} or status >= 500,
                retry_after=_retry_after(error.response.headers.get("retry-after")),
            )
        reason = error.__cause__ or error
        words = self._quoted(str(reason).encode(errors="replace"))
        return _Trouble(
            f"no answer: {type(reason).__name__}: {words}; is the server there and base_url right?"
        )

    def _remedy(self, status: int) -> str:
        if status in {401, 403}:
            unset = "" if self._key else ", it is not set now"
            variable = self.endpoint.api_key_env
            return f"; set the environment variable {variable} to a key that is accepted there{unset}"
        if status == 404:
            return "; check base_url (it ends in /v1 as a rule) and model"
        if status in {400, 422}:
            return (
                "; if it does not know JSON schemas set schema_decoding to false, "
                "if it calls the limit of an answer otherwise set token_limit, "
                "if it refuses the temperature set engineer.temperature"
            )
        return "; set base_url to the address it redirects to" if 300 <= status < 400 else ""

    def _wait(self, state: RetryCallState) -> float:
        drawn = wait_random_exponential(multiplier=self.endpoint.backoff, max=self.endpoint.max_wait)(state)
        trouble = state.outcome.exception() if state.outcome else None
        asked = trouble.retry_after if isinstance(trouble, _Trouble) else 0
        return min(max(drawn, asked), self.endpoint.max_wait)

    def _redacted(self, text: str) -> str:
        return self._secret.sub("[key]", text) if self._secret else text

    def _quoted(self, body: bytes) -> str:
        """The start of what a server said; the key is taken out before the cut could leave half of it."""
        text = "".join(c if c.isprintable() else " " for c in self._redacted(body.decode(errors="replace")))
        return repr(text if len(text) <= QUOTED else text[: QUOTED - 3] + "...")


def _pattern(key: str) -> re.Pattern[str]:
    """Finds a key as it is, and as JSON may write it, also inside of a string of other JSON."""
    forms = ((re.escape(c), rf"\\+(?i:u{ord(c):04x})", rf"\\+{re.escape(c)}") for c in key)
    return re.compile("".join(f"(?:{'|'.join(form)})" for form in forms))


class _Trouble(Exception):
    """A request that brought no answer, in words that hold no key."""

    def __init__(self, words: str, may_pass: bool = True, retry_after: float = 0) -> None:
        super().__init__(words)
        self.may_pass, self.retry_after = may_pass, retry_after


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Reply(BaseModel):
    choices: list[_Choice] = Field(min_length=1)


class _Bounded(httpx2.AsyncByteStream):
    """A response's bytes, up to a number of them."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for chunk in self._stream:
            read += len(chunk)
            if read > MAX_BODY:
                raise _Trouble(f"the body is longer than {MAX_BODY:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _bound(response: httpx2.Response) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        # Its size unpacked has no bound.
        raise _Trouble("the body is compressed, though only a plain one is accepted")
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(response.stream)


def _tokens(body: Any, name: str) -> int:
    """Tokens of a kind as a body reports them; 0 where it says nothing usable."""
    usage = body.get("usage") if isinstance(body, dict) else None
    number = usage.get(name) if isinstance(usage, dict) else None
    return number if type(number) is int and 0 <= number <= MAX_TOKENS else 0


def _retry_after(header: str | None) -> float:
    """Seconds that a server asks to wait, given as a number or a date; 0 if it does not."""
    try:
        seconds = float(header or 0)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(str(header)).timestamp() - time.time()
        except (ValueError, OverflowError):
            return 0
    return max(seconds, 0) if math.isfinite(seconds) else 0
