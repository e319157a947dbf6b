"""How the claims of a rationale are written: what is looked for, in the words of a space."""

import re
from functools import lru_cache
from typing import NamedTuple, Self

from envgen.config import SHARE
from envgen.family import Space

_AND = "(?:, and |, | and | & |/)"
_FIRST_MARK, _LAST_MARK = 0xE000, 0xF8FF
_MARKS = f"{chr(_FIRST_MARK)}-{chr(_LAST_MARK)}"
"""Characters that no text needs; while a text is read, one stands for each stratum that it names."""
STRATA = f"[{_MARKS}](?:{_AND}[{_MARKS}])*"
PARTS = re.compile(r"(?<![\d.])(?P<count>\d{1,3}) parts? of (?:the )?data\b")
KEPT = re.compile(
    rf"(?P<strata>{STRATA})(?:(?: [^:{_MARKS}]*)?: | (?:(?:is|are|stays?|remains?) )?(?:left )?)"
    r"(?P<words>as it is|unchanged|kept)(?= ?(?:,|$|as it is))"
)


class Words(NamedTuple):
    """What a space calls its things, in the letters in which texts are read."""

    labels: tuple[str, ...]
    mention: str
    forms: tuple[tuple[str, str], ...]
    """What a knob may be called and its name, the longest first."""
    rates: tuple[str, ...]
    asked: tuple[str, ...]
    """Words of the knobs that ask for a label."""

    @classmethod
    def of(cls, space: Space) -> Self:
        """Those of a space."""
        forms = {"data": SHARE, "share": SHARE}
        for knob in space.knobs:
            name = spelled(knob.name)
            called = (knob.word, knob.word.removesuffix("s"), name, re.sub(" (?:ratio|share)$", "", name))
            forms = dict.fromkeys(map(plain, called), knob.name) | forms
        return cls(
            labels=tuple(map(plain, space.labels.values())),
            mention=space.mention,
            forms=tuple(sorted(forms.items(), key=lambda form: -len(form[0]))),
            rates=tuple(spelled(rate) for rate in ("valid", "solved", space.best, *space.categories) if rate),
            asked=tuple(plain(knob.word) for knob in space.asked),
        )


class Patterns(NamedTuple):
    """How what a space has is written."""

    stratum: re.Pattern[str]
    knob: re.Pattern[str]
    move: re.Pattern[str]
    percentage: re.Pattern[str]
    value: re.Pattern[str]


@lru_cache(maxsize=32)
def patterns(words: Words) -> Patterns:
    """Those of a space with these words, of texts as `marked` leaves them."""
    labels = "|".join(map(_spaced, sorted(words.labels, key=len, reverse=True)))
    forms = "|".join(re.escape(form).replace(r"\ ", "[ _]") for form, _ in words.forms)
    knob = rf"\b(?:{forms})s?(?:[ _](?:share|ratio)s?)?\b"
    knobs = rf"{knob}(?:{_AND}{knob})*"
    rate = rf"(?:{'|'.join(map(re.escape, words.rates))})"
    label = "|".join([rate, *(rf"(?<=valid, ){re.escape(word)}" for word in words.asked)])
    return Patterns(
        # Without groups before the mention, which may count its own.
        stratum=re.compile(rf"(?<![\w.])(?:{labels})(?!\w)|{words.mention}", re.IGNORECASE),
        knob=re.compile(knob),
        move=re.compile(
            rf"\b(?P<word>more|less|fewer|(?:rais|increas|reduc)(?:e[sd]?|ing)|lower(?:s|ed|ing)?|cuts?)\b"
            rf"(?: (?:of|the|its|their|training)\b)*(?: (?P<knobs>{knobs}))?"
            r"(?P<to> (?:for|of|to|on|in|at)\b(?! [\d.]+(?![\w.])))?"
            rf"(?: (?P<strata>{STRATA}))?(?: (?P<after>{knobs}))?(?! than\b)"
        ),
        percentage=re.compile(
            r"(?P<hedge>\b(?:over|above|than|least|most|under|below|about|around|roughly|nearly|almost|nearest|by)"
            rf" |~ ?)?(?:\b(?P<label>{label}) )?(?<![\d.])(?P<number>\d{{1,9}}(?:\.\d{{1,9}})?) ?%"
            # What is said of some instances only, as in "valid on instances that", is another number.
            rf"(?: (?P<name>{rate})s?\b(?! (?:where|when|if|with|(?:on|for) (?:the )?\w{{3,}}s)\b))?"
        ),
        value=re.compile(rf"(?P<knob>{knob}) (?:of |at |to )?(?P<number>\d{{1,9}}\.\d{{1,9}})(?![\w.%]| %)"),
    )


def marked(text: str, space: Space, words: Words) -> tuple[str, dict[str, str]]:
    """A text with a mark for each stratum that it names, and what the marks stand for."""
    names = dict(zip(words.labels, space.names, strict=True))

    def mark(match: re.Match[str]) -> str:
        called = " ".join(match.group().split())
        names.setdefault(called, called)
        return chr(_FIRST_MARK + list(names).index(called))

    text = patterns(words).stratum.sub(mark, re.sub(f"[{_MARKS}]", "?", plain(text)))
    return text, {chr(_FIRST_MARK + number): name for number, name in enumerate(names.values())}


def spelled(name: str) -> str:
    """A name as texts have it: `parse_error` is `parse error`."""
    return plain(name).replace("_", " ")


def plain(text: str) -> str:
    """In the letters in which texts are read."""
    return text.lower().replace("×", "x")


def _spaced(label: str) -> str:
    """The pattern of a label, whatever blanks its words are apart by."""
    return r"[^\S\n]+".join(map(re.escape, label.split()))
