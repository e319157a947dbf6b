"""What a tokenizer of a small policy keeps whole in short puzzles, and in design questions."""

from envgen.environment import Vocabulary

_APART = "|".join(
    (
        # Shares, knobs and percentages of design questions; numbers of puzzles are read digit by digit.
        r"(?<=[a-z] |:|\([+-])(?:0\.[0-9]{2}|[1-9]\.00)(?![0-9.])|(?<![0-9.])[0-9]{1,3}%",
        # The end of a number to sort, with what stands between two in the answer.
        r"\.0(?:', '|'\]|(?![0-9]))",
        # Steps and cells of a path, tokens of a rewriting program, cells of a sudoku, blanks of a matrix.
        r" ?(?:up|down|left|right)(?=\z| (?:up|down|left|right))|\Ainfeasible",
        r" ?[*OX\#](?=[ \n])",
        r" ?(?:[AB]\#|\#[AB])",
        r"(?<=[0-9_\n])[ _](?=[ \n0-9_])",
        # Letters: of a word to spell, of a palindrome, and of an answer that is a word.
        r"[A-Za-z](?=[A-Za-z]* backward =\z|[A-Za-z]*\z)| [a-z](?= )",
    )
)
# Other words to the end of a clause: a name of a stratum is followed by any of them.
_CLAUSE = rf"(?:(?!{_APART})[^0-9\n])+?(?:[.:,;] |\.(?=\x22)|\}},|\) and |(?={_APART}|[0-9\n]|\z))"
VOCABULARY = Vocabulary(pieces=rf"{_APART}|[0-9]|{_CLAUSE}|\n")
