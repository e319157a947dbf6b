"""Tokenizer of the tiny policy: a token for each cell, number and fixed text between, bytes for the rest."""

from collections import Counter
from collections.abc import Iterable

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from envgen.mapf.problem import MAX_AGENTS, MAX_SIZE, cell_text

PAD, END = "<|pad|>", "<|end|>"
SPECIAL = (PAD, END, "<|user|>", "<|assistant|>", "<|system|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
# A cell, an agent's head, a number, or a run of anything else.
PIECES = r" ?\([0-9]+,[0-9]+\)|\n?Agent [0-9]:|[0-9]+(?:\.[0-9]+)?%?|[^0-9(\n]+|\n|\("
MAX_LENGTH = 1024


def build_tokenizer(texts: Iterable[str], min_count: int = 20) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer whose vocabulary holds every piece that occurs `min_count` times in `texts`.

    All cells, agent heads, two-digit decimals and percentages are in it whatever the texts hold. Any text can
    be encoded; what is not in the vocabulary falls back to bytes.
    """
    splitter = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    counts = Counter(piece for text in texts for piece, _ in splitter.pre_tokenize_str(text))
    fixed = [f" {cell_text((row, column))}" for row in range(MAX_SIZE) for column in range(MAX_SIZE)]
    fixed += [f"{newline}Agent {agent}:" for newline in ("", "\n") for agent in range(MAX_AGENTS)]
    fixed += [f"{hundredths / 100:.2f}" for hundredths in range(101)]
    fixed += [f"{percent}%" for percent in range(101)]
    fixed += [str(number) for number in range(MAX_SIZE + 1)]
    always = [splitter.pre_tokenize_str(piece)[0][0] for piece in fixed]
    learned = sorted(piece for piece, count in counts.items() if count >= min_count)
    pieces = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet()), *always, *learned]
    vocabulary = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in SPECIAL])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        padding_side="left",
        model_max_length=MAX_LENGTH,
    )
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped
