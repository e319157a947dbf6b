"""What chat models in this process share: conversations become tokens, tokens become completions."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from transformers import AutoTokenizer

from envgen.errors import ModelError
from envgen.seeds import seed_integer
from envgen.terminal import printable
from policy.chat.contract import Completion, Conversation, Progress, Sampling, equal_groups
from policy.checkpoints import resolve_model

QUOTED = 600
"""Characters of a library's words in a message at most."""
_HELLO = [{"role": "user", "content": "Hello"}]
_ANSWER = "some answer"


@dataclass(frozen=True)
class Question:
    """A conversation as the model reads it."""

    index: int
    tokens: list[int]
    seed: int
    """Of its answer, if that is sampled; derived from the sampling's seed, the prompt, and the rank among
    equal prompts, whatever else is asked."""
    sampling: Sampling


class LocalModel(ABC):
    """A `ChatModel` that answers step by step: questions may be added while others are being answered."""

    def __init__(self, source: str, tokenizer: Any, ends: set[int], limit: int | None) -> None:
        """`ends` are the tokens that end an answer, `limit` the most tokens of prompt and answer, or None."""
        self.source, self.tokenizer, self.ends, self.limit = source, tokenizer, ends, limit
        self.waiting: dict[int, Question] = {}
        """Index -> question that is not answered yet."""

    @abstractmethod
    def step(self) -> dict[int, Completion]:
        """Go on answering; index -> new completion, which may be none."""

    @abstractmethod
    def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        """For each sequence of n >= 1 token ids the n - 1 log-probabilities of its tokens after the first.

        They are log p(token_t | tokens before t), t >= 1, at temperature 1. ModelError if a sequence is empty
        or too long for the model.
        """

    def add(self, conversations: Mapping[int, Conversation], sampling: Sampling) -> list[Question]:
        """Have conversations answered by the next steps, under these indices.

        Equal ones belong in one call, as a sampled answer depends on the rank among them. ModelError if one
        does not fit; then none is added.
        """
        if not conversations:
            return []
        indices, asked = list(conversations), list(conversations.values())
        groups = equal_groups(asked)
        messages = [[message.model_dump() for message in asked[group[0]]] for group in groups]
        with _refused(f"{self.source}: its chat template does not take these questions"):
            prompts = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        encoded = self.tokenizer(prompts, add_special_tokens=False)["input_ids"]
        longest = max(map(len, encoded))
        if self.limit and longest + sampling.max_tokens > self.limit:
            raise ModelError(
                f"{self.source}: a prompt of {longest} tokens and an answer of up to {sampling.max_tokens} "
                f"exceed the model's {self.limit}; lower max_tokens"
            )
        questions = []
        for group, prompt, tokens in zip(groups, prompts, encoded, strict=True):
            for rank, place in enumerate(group):
                seed = seed_integer(sampling.seed, prompt, rank) if sampling.temperature else 0
                questions.append(Question(indices[place], tokens, seed, sampling))
        self.waiting |= {question.index: question for question in questions}
        return questions

    def complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress | None = None
    ) -> list[Completion]:
        """Complete every conversation in order; answers do not depend on the order asked."""
        done: dict[int, Completion] = {}
        self.add(dict(enumerate(conversations)), sampling)
        while self.waiting:
            new = self.step()
            done |= new
            if progress and new:
                progress(new)
        return [done[index] for index in range(len(conversations))]

    def completion(self, question: Question, row: list[int]) -> Completion:
        """The completion of a question by tokens, of which those after the end do not count."""
        end = next((place for place, token in enumerate(row) if token in self.ends), None)
        return Completion(
            text=self.tokenizer.decode(row[:end], skip_special_tokens=True),
            prompt_tokens=len(question.tokens),
            completion_tokens=len(row) if end is None else end + 1,
            finish_reason="length" if end is None else "stop",
        )

    def check_lengths(self, sequences: Sequence[Sequence[int]], limit: int | None) -> None:
        """ModelError if a sequence to be scored is empty or longer than `limit`."""
        for sequence in sequences:
            if not sequence or (limit and len(sequence) > limit):
                raise ModelError(
                    f"{self.source}: a sequence of {len(sequence)} tokens cannot be scored; give 1 to "
                    f"{limit or 'any number'}"
                )


def load_tokenizer(source: str) -> Any:
    """The tokenizer of a checkpoint or hub id; ModelError if it does not load or has no chat template."""
    with loading(source):
        tokenizer = AutoTokenizer.from_pretrained(
            resolve_model(source), padding_side="left", trust_remote_code=False
        )
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.chat_template is None:
        raise ModelError(f"{source}: its tokenizer has no chat template; use an instruction-tuned model")
    with _refused(f"{source}: its chat template cannot be used"):
        hello = tokenizer.apply_chat_template(_HELLO, tokenize=False, add_generation_prompt=True)
        tokenizer(hello, add_special_tokens=False)
    return tokenizer


def loading(source: str) -> AbstractContextManager[None]:
    """Inside of it, whatever a library raises about the files of a model becomes one ModelError."""
    return _refused(f"{source}: cannot be loaded")


@contextmanager
def _refused(what: str) -> Iterator[None]:
    try:
        yield
    except ModelError:
        raise
    except Exception as error:  # libraries raise anything about damaged and hostile files
        words = printable(f"{type(error).__name__}: {error}")
        raise ModelError(f"{what}: {words if len(words) <= QUOTED else words[:QUOTED] + '...'}") from None


def end_tokens(configured: int | list[int] | None) -> set[int]:
    """The tokens that end an answer, as a generation config names them."""
    if configured is None:
        return set()
    return set(configured) if isinstance(configured, list) else {configured}


def after_answer(tokenizer: Any) -> list[int]:
    """The tokens that the chat template writes behind an answer; whatever the template raises."""
    turns = [*_HELLO, {"role": "assistant", "content": _ANSWER}]
    text = tokenizer.apply_chat_template(turns, tokenize=False)
    return tokenizer(text.rpartition(_ANSWER)[2], add_special_tokens=False)["input_ids"]
