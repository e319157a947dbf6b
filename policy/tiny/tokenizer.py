"""Tokenizer of a tiny policy: a token for each number and fixed text between, bytes for the rest."""

from collections import Counter
from collections.abc import Iterable

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from envgen.environment import Vocabulary

PAD, END = "<|pad|>", "<|end|>"
SPECIAL = (PAD, END, "<|user|>", "<|assistant|>", "<|system|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
USUAL = Vocabulary(
    # Two-digit decimals and percentages, which design questions are made of; else one digit at a time, with
    # which arithmetic can be learned; runs of anything else.
    pieces=r"(?<![0-9.])(?:(?:0\.[0-9]{2}|1\.00)(?![0-9.])|[0-9]{1,3}%)|[0-9]|[^0-9\n]+|\n"
)
"""Of a family that has no attribute `vocabulary`."""
MAX_LENGTH = 1024
LARGEST_NUMBER = 10
"""Whole numbers to this one are in every vocabulary, if its pieces keep them whole."""


def build_tokenizer(
    texts: Iterable[str], vocabulary: Vocabulary = USUAL, min_count: int = 20
) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer whose vocabulary holds every piece that occurs `min_count` times in `texts`.

    All fixed pieces of `vocabulary`, two-digit decimals and percentages are in it whatever the texts hold.
    Any text can be encoded; what is not in the vocabulary falls back to bytes.
    """
    splitter = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(vocabulary.pieces), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    counts = Counter(piece for text in texts for piece, _ in splitter.pre_tokenize_str(text))
    fixed = [
        *vocabulary.fixed,
        *(f"{hundredths / 100:.2f}" for hundredths in range(101)),
        *(f"{percent}%" for percent in range(101)),
        *(str(number) for number in range(LARGEST_NUMBER + 1)),
    ]
    always = [splitter.pre_tokenize_str(piece)[0][0] for piece in fixed]
    learned = sorted(piece for piece, count in counts.items() if count >= min_count)
    pieces = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet()), *always, *learned]
    numbered = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.BPE(vocab=numbered, merges=[], ignore_merges=True))
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
