"""How long each context module may be, in tokens counted by a rule that needs no tokenizer."""

import re

from engineer.context import Module
from engineer.spec import Wording

_PIECES = re.compile(r"[A-Za-z]+|\S")

BUDGETS: dict[Wording, dict[Module, int]] = {
    "full": {
        Module.FAILURES: 1_400,
        Module.GUIDELINE: 240,
        Module.HISTORY: 2_400,
        Module.HISTORY_WITHOUT_DEFAULT: 2_400,
        Module.RATIONALE: 240,
        Module.BOOKKEEPING: 80,
        Module.WAITS: 480,
        Module.TRAINING: 400,
    },
    "compact": {
        Module.FAILURES: 500,
        Module.GUIDELINE: 100,
        Module.HISTORY: 960,
        Module.HISTORY_WITHOUT_DEFAULT: 960,
        Module.RATIONALE: 60,
        Module.BOOKKEEPING: 80,
        Module.WAITS: 160,
        Module.TRAINING: 140,
    },
}
"""Wording -> module -> tokens at most, as `tokens` counts them. A module that is longer is cut from its least
informative end.

In both wordings the failures and three earlier stages of eight strata with two knobs each fit. In `compact`,
with four such strata, a whole prompt and an answer of 160 tokens fit the 1,024 of the tiny policy, whatever
the stage."""


def tokens(text: str) -> int:
    """Tokens of a text, counted on the high side: whoever reads a prompt, it is the same.

    Each digit and each mark is one, a run of n Latin letters is n / 4 rounded up, any other character is as
    many as it has bytes in UTF-8; white space is none. Tokenizers of large models need fewer, since most
    words are one token.
    """
    return sum(
        -(-len(piece) // 4) if piece.isascii() else len(piece.encode(errors="replace"))
        for piece in _PIECES.findall(text)
    )
