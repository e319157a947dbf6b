"""How a model is asked, and where its answers end: the same in training, warm start and every engine."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from transformers import AutoTokenizer, GenerationConfig

from envgen.errors import ModelError
from envgen.terminal import printable
from envgen.thinking import OPEN
from policy.checkpoints import resolve_model

QUOTED = 600
"""Maximum length of a library's words in an error message."""
TODAY = datetime(2024, 7, 26, tzinfo=UTC)
"""Date that chat templates write, whatever the day of the run; the one of Llama 3 where it has no clock."""
_CODES = (*"aAbBdeFHIjmMpSTyY", "-d", "-m")
_ANSWER = "some answer"


def load_tokenizer(source: str, template_kwargs: Mapping[str, Any] | None = None) -> Any:
    """The tokenizer of a checkpoint or hub id, with `template_kwargs` as defaults of its chat template;
    ModelError if it does not load, or has no chat template or no end of text."""
    with refused(f"{source}: cannot be loaded"):
        options = {"padding_side": "left", "trust_remote_code": False}
        tokenizer = AutoTokenizer.from_pretrained(resolve_model(source), **options)
    if tokenizer.chat_template is None:
        raise ModelError(f"{source}: its tokenizer has no chat template; use an instruction-tuned model")
    with refused(f"{source}: its chat template cannot be used"):
        template = tokenizer.get_chat_template()
        if not template.startswith(prelude := _prelude(template, template_kwargs or {})):
            tokenizer.chat_template = prelude + template
        chat_tokens(tokenizer, ["Hello"])
        end = template_end(tokenizer)
    if tokenizer.eos_token is None:
        if end is None:
            raise ModelError(f"{source}: its tokenizer has no eos_token; add it to tokenizer_config.json")
        tokenizer.eos_token = tokenizer.convert_ids_to_tokens(end)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _prelude(template: str, template_kwargs: Mapping[str, Any]) -> str:
    """Jinja that sets what a caller of the template leaves open, and its date; it writes nothing."""
    # Literals of Python are literals of Jinja.
    lines = [
        f"{{% set {name} = {name}|default({value!a}) %}}" for name, value in sorted(template_kwargs.items())
    ]
    if "strftime_now" in template:
        written = "".join(f".replace('%{code}', '{TODAY.strftime(f'%{code}')}')" for code in _CODES)
        lines.append(f"{{% macro strftime_now(format) %}}{{{{ format{written} }}}}{{% endmacro %}}")
    return "".join(lines)


def chat_tokens(tokenizer: Any, questions: Sequence[str]) -> list[list[int]]:
    """Token ids of each question as the only turn of a user, up to where the answer begins."""
    turns = [[{"role": "user", "content": question}] for question in questions]
    texts = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    return tokenizer(texts, add_special_tokens=False)["input_ids"]


def opening(tokenizer: Any) -> str:
    """Return `<think>` if the chat template opens the thinking of an answer itself, or else nothing."""
    turns = [{"role": "user", "content": "Hello"}]
    text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    return OPEN if text.rstrip().endswith(OPEN) else ""


def template_end(tokenizer: Any) -> int | None:
    """The special token that the chat template writes after an answer; None if it writes none."""
    turns = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": _ANSWER}]
    before, _, after = tokenizer.apply_chat_template(turns, tokenize=False).rpartition(_ANSWER)
    ids = tokenizer(after.lstrip(), add_special_tokens=False)["input_ids"] if before else []
    special = {*tokenizer.added_tokens_decoder, *tokenizer.all_special_ids}
    return ids[0] if ids and ids[0] in special else None


def generation_config(tokenizer: Any, loaded: GenerationConfig) -> GenerationConfig:
    """Special tokens of a checkpoint's generation config, and nothing else of it: penalties and lengths would
    make another policy of it. An answer ends there, at the tokenizer's end, and at the chat template's."""
    ends = loaded.eos_token_id
    ends = {*(ends if isinstance(ends, list) else [ends]), tokenizer.eos_token_id, template_end(tokenizer)}
    return GenerationConfig(
        bos_token_id=loaded.bos_token_id,
        eos_token_id=sorted(ends - {None}),
        pad_token_id=tokenizer.pad_token_id,
    )


@contextmanager
def refused(what: str) -> Iterator[None]:
    """Turn whatever a library raises into a ModelError that starts with `what`."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:  # libraries raise anything about damaged and hostile files
        words = printable(f"{type(error).__name__}: {error}")
        raise ModelError(f"{what}: {words if len(words) <= QUOTED else words[:QUOTED] + '...'}") from None
