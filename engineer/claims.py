"""Whether a rationale says what is true: the claims in it that the numbers of its stage can decide.

A clause ends at a semicolon, a line break, or a point that no digit follows. Checked are, of the strata that
it names: percentages and values of knobs, if it names one stratum; which way a knob moved, from the config of
the stage to the proposed one after projection, in the two digits that are shown; how often a stratum is said
to be solved; and its parts of the data, if every stratum is given some. What is negated, compared with
another stratum or only bounded ("over 50%") is not checked, nor what other words say.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import product
from typing import NamedTuple, Self

from pydantic import Field

from engineer.answer import MAX_RATIONALE, SHARE_ROUNDING
from envgen.breakdown import Breakdown
from envgen.config import SHARE, EnvConfig, Part
from envgen.family import Space
from envgen.frozen import Frozen

TOLERANCE = 1
"""Points by which a percentage may miss the number shown; one that says which number it is has to be nearer
than this."""
CLAUSE_END = r"[;\n]|\.(?!\d)"
LEVELS: dict[str, Callable[[float], bool]] = {
    "mostly (?:solved|valid)": lambda percent: percent > 50,
    "rarely (?:solved|valid)": lambda percent: percent < 33,
    "nearly (?:all|always) (?:solved|valid)": lambda percent: percent >= 85,
    "(?:solved|valid) about half of the time": lambda percent: 30 <= percent <= 70,
}
"""Words, and the percent valid of which they are true."""

_DENIED = re.compile(r"(?:\b(?:no|not|never|hardly|without|cannot)|n['’]t)(?: \w+){0,2} $")
"""Before what it denies: 'not ', 'do not need ', 'aren't '."""
_DENIED_WITHIN = 40
"""Characters before a claim in which it is looked for."""
_AND = "(?:, and |, | and | & |/)"
_FIRST_MARK, _LAST_MARK = 0xE000, 0xF8FF
_MARKS = f"{chr(_FIRST_MARK)}-{chr(_LAST_MARK)}"
"""Characters that no text needs; while a text is read, one stands for each stratum that it names."""
_STRATA = f"[{_MARKS}](?:{_AND}[{_MARKS}])*"
_PARTS = re.compile(r"(?<![\d.])(?P<count>\d{1,3}) parts? of (?:the )?data\b")
_KEPT = re.compile(
    rf"(?P<strata>{_STRATA})(?:(?: [^:{_MARKS}]*)?: | (?:(?:is|are|stays?|remains?) )?(?:left )?)"
    r"(?P<words>as it is|unchanged|kept)(?= ?(?:,|$|as it is))"
)


class Claims(Frozen):
    """The claims of a rationale that can be checked."""

    checked: int = Field(ge=0)
    """How many different ones there are."""
    false: tuple[str, ...]
    """Those that do not hold, each with what the numbers say: `'2 terms mostly solved': 46% valid`."""

    @property
    def true(self) -> int:
        """How many hold."""
        return self.checked - len(self.false)


class _Words(NamedTuple):
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
        forms = {"data": SHARE, "share": SHARE}
        for knob in space.knobs:
            name = _words(knob.name)
            called = (knob.word, knob.word.removesuffix("s"), name, re.sub(" (?:ratio|share)$", "", name))
            forms = dict.fromkeys(map(_plain, called), knob.name) | forms
        return cls(
            labels=tuple(map(_plain, space.labels.values())),
            mention=space.mention,
            forms=tuple(sorted(forms.items(), key=lambda form: -len(form[0]))),
            rates=tuple(_words(rate) for rate in ("valid", "solved", space.best, *space.categories) if rate),
            asked=tuple(_plain(knob.word) for knob in space.asked),
        )


class _Patterns(NamedTuple):
    """How what a space has is written."""

    stratum: re.Pattern[str]
    knob: re.Pattern[str]
    move: re.Pattern[str]
    percentage: re.Pattern[str]
    value: re.Pattern[str]


@lru_cache(maxsize=32)
def _patterns(words: _Words) -> _Patterns:
    labels = "|".join(map(_spaced, sorted(words.labels, key=len, reverse=True)))
    forms = "|".join(re.escape(form).replace(r"\ ", "[ _]") for form, _ in words.forms)
    knob = rf"\b(?:{forms})s?(?:[ _](?:share|ratio)s?)?\b"
    knobs = rf"{knob}(?:{_AND}{knob})*"
    rate = rf"(?:{'|'.join(map(re.escape, words.rates))})"
    label = "|".join([rate, *(rf"(?<=valid, ){re.escape(word)}" for word in words.asked)])
    return _Patterns(
        # Without groups before the mention, which may count its own.
        stratum=re.compile(rf"(?<![\w.])(?:{labels})(?!\w)|{words.mention}", re.IGNORECASE),
        knob=re.compile(knob),
        move=re.compile(
            rf"\b(?P<word>more|less|fewer|(?:rais|increas|reduc)(?:e[sd]?|ing)|lower(?:s|ed|ing)?|cuts?)\b"
            rf"(?: (?:of|the|its|their|training)\b)*(?: (?P<knobs>{knobs}))?"
            r"(?P<to> (?:for|of|to|on|in|at)\b(?! [\d.]+(?![\w.])))?"
            rf"(?: (?P<strata>{_STRATA}))?(?: (?P<after>{knobs}))?(?! than\b)"
        ),
        percentage=re.compile(
            r"(?P<hedge>\b(?:over|above|than|least|most|under|below|about|around|roughly|nearly|almost|nearest|by)"
            rf" |~ ?)?(?:\b(?P<label>{label}) )?(?<![\d.])(?P<number>\d{{1,9}}(?:\.\d{{1,9}})?) ?%"
            # What is said of some instances only, as in "valid on instances that", is another number.
            rf"(?: (?P<name>{rate})s?\b(?! (?:where|when|if|with|(?:on|for) (?:the )?\w{{3,}}s)\b))?"
        ),
        value=re.compile(rf"(?P<knob>{knob}) (?:of |at |to )?(?P<number>\d{{1,9}}\.\d{{1,9}})(?![\w.%]| %)"),
    )


class _Clause(NamedTuple):
    """A clause, and what its claims are checked against. Claims come with the numbers that refute them, "" if
    they hold."""

    text: str
    strata: dict[str, str]
    """Mark -> name of a stratum; what reads like a stratum but is none has its own words for a name."""
    space: Space
    words: _Words
    config: EnvConfig
    proposed: EnvConfig
    breakdown: Breakdown

    def claims(self) -> Iterator[tuple[str, str]]:
        known = self.config.strata.keys() | self.proposed.strata.keys()
        marks = [mark for mark in self.strata if mark in self.text]
        unknown = [self.space.label(self.strata[mark]) for mark in marks if self.strata[mark] not in known]
        for label in sorted(unknown, key=lambda label: (len(label), label)):
            yield label, f"no such {self.space.noun}"
        one = self.strata[marks[0]] if len(marks) == 1 else None
        of_one = () if one is None else (*self._percentages(one), *self._values(one))
        for name, claim, refuted in (*self._levels(), *self._moves(), *self._kept(), *of_one):
            if name in known:
                yield f"{self.space.label(name)} {claim}", refuted

    def _levels(self) -> Iterator[tuple[str, str, str]]:
        for words, holds in LEVELS.items():
            for match in re.finditer(rf"\b{words}\b", self.text):
                for name in () if self._denied(match.start()) else self._about(match.start()):
                    part = self.breakdown.strata.get(name)
                    rate = 100 * part.valid / part.n if part and part.n else None
                    refuted = "not evaluated" if rate is None else "" if holds(rate) else f"{rate:.0f}% valid"
                    yield name, match.group(), refuted

    def _moves(self) -> Iterator[tuple[str, str, str]]:
        last = [SHARE]
        for match in _patterns(self.words).move.finditer(self.text):
            if self._denied(match.start()):
                continue
            knobs = self._knobs(match["knobs"] or match["after"] or "")
            strata, to = self._strata(match["strata"] or ""), match["to"]
            if not knobs and to in (None, " for", " of"):
                knobs = last
            elif knobs and not strata and not to:
                strata = self._about(match.start())
            last = knobs or last
            sign = 1 if match["word"].startswith(("more", "rais", "incr")) else -1
            for name, knob in product(strata, knobs):
                if numbers := self._numbers(name).get(knob):
                    old, new = numbers
                    refuted = "" if sign * (new - old) > 0 else f"{old:.2f} → {new:.2f}"
                    yield name, f"{match['word']} {self._word(knob)}", refuted

    def _kept(self) -> Iterator[tuple[str, str, str]]:
        for match in _KEPT.finditer(self.text):
            for name in self._strata(match["strata"]):
                moved = {knob: pair for knob, pair in self._numbers(name).items() if pair[0] != pair[1]}
                changes = (f"{self._word(knob)} {old:.2f} → {new:.2f}" for knob, (old, new) in moved.items())
                yield name, match["words"], ", ".join(changes)

    def _percentages(self, name: str) -> Iterator[tuple[str, str, str]]:
        rates = self._rates(name)
        shares = {SHARE, *(knob.name for knob in self.space.knobs if knob.low >= 0 and knob.high <= 1)}
        ratios = [ratio for knob, pair in self._numbers(name).items() if knob in shares for ratio in pair]
        shown = [*rates.values(), *(round(100 * ratio) for ratio in ratios)]
        for match in _patterns(self.words).percentage.finditer(self.text):
            number, rate = float(match["number"]), match["label"] or match["name"]
            if rate is None:
                holds = any(abs(number - one) <= TOLERANCE for one in shown)
                said = f"not a number of this {self.space.noun}"
            elif rate not in rates:
                holds, said = False, "not evaluated"
            else:
                holds = abs(number - rates[rate]) < TOLERANCE
                asked = rate in self.words.asked
                said = f"{rate} {rates[rate]}%" if asked else f"{rates[rate]}% {rate}"
            if not match["hedge"]:
                yield name, match.group(), "" if holds else said

    def _values(self, name: str) -> Iterator[tuple[str, str, str]]:
        for match in _patterns(self.words).value.finditer(self.text):
            [knob] = self._knobs(match["knob"])
            pair = self._numbers(name).get(knob)
            if pair and not self._denied(match.start()):
                old, new = pair
                holds = round(float(match["number"]), 2) in pair
                yield name, match.group(), "" if holds else f"{old:.2f} → {new:.2f}"

    def parts(self) -> dict[str, tuple[str, int]]:
        """Stratum -> (words, count) of the parts of the data that the clause gives it."""
        return {
            name: (match.group(), int(match["count"]))
            for match in _PARTS.finditer(self.text)
            for name in self._about(match.start())
        }

    def _denied(self, at: int) -> bool:
        """Whether what stands at a place is denied by the words before it."""
        return _DENIED.search(self.text[max(0, at - _DENIED_WITHIN) : at]) is not None

    def _about(self, at: int) -> tuple[str, ...]:
        """The strata that are named last before a place, or else the only ones."""
        named = list(re.finditer(_STRATA, self.text))
        before = [match.group() for match in named if match.end() <= at]
        before = before or [match.group() for match in named if len(named) == 1]
        return self._strata(before[-1]) if before else ()

    def _strata(self, text: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.strata[mark] for mark in text if mark in self.strata))

    def _knobs(self, text: str) -> list[str]:
        """Names of the knobs that a text names."""
        found = (word.replace("_", " ") for word in _patterns(self.words).knob.findall(text))
        return [next(name for form, name in self.words.forms if word.startswith(form)) for word in found]

    def _word(self, knob: str) -> str:
        return next((one.word for one in self.space.knobs if one.name == knob), "data")

    def _numbers(self, name: str) -> dict[str, tuple[float, float]]:
        """Old and new share and knobs, in two digits; 0 of a stratum that a config does not name."""
        parts = [config.strata.get(name) for config in (self.config, self.proposed)]
        known = [
            knob for knob in self.space.numbers if any(part and part.get(knob) is not None for part in parts)
        ]

        def shown(part: Part | None, knob: str) -> float:
            return round(part.get(knob) or 0.0, 2) if part else 0.0

        return {knob: (shown(parts[0], knob), shown(parts[1], knob)) for knob in known}

    def _rates(self, name: str) -> dict[str, int]:
        """Percent of the answers, as they are shown; empty without answers."""
        part = self.breakdown.strata.get(name)
        if part is None or not part.n:
            return {}
        counts = {name: part.failures.get(name, 0) for name in self.space.categories}
        counts |= {self.space.best: part.optimal} if self.space.best else {}
        counts |= {"valid": part.valid, "solved": part.valid}
        rates = {_words(name): round(100 * count / part.n) for name, count in counts.items()}
        for knob in self.space.asked:
            has = part.labels.get(knob.label.name) if knob.label else None
            if has and has.n:
                rates[_plain(knob.word)] = round(100 * has.valid / has.n)
            if has and has.n < part.n:
                rates[f"without {_plain(knob.word)}"] = round(
                    100 * (part.valid - has.valid) / (part.n - has.n)
                )
        return rates


def check_claims(
    space: Space, rationale: str, config: EnvConfig, proposed: EnvConfig, breakdown: Breakdown
) -> Claims:
    """The claims of a rationale for `proposed`, written after a stage on `config` that left `breakdown`."""
    words, found = _Words.of(space), dict[str, str]()
    parts = dict[str, tuple[str, int]]()
    text, strata = _marked(rationale[:MAX_RATIONALE], space, words)
    for part in re.split(CLAUSE_END, text):
        clause = _Clause(" ".join(part.split()), strata, space, words, config, proposed, breakdown)
        found |= clause.claims()
        parts |= clause.parts()
    found |= _shares(space, parts, proposed)
    false = tuple(f"'{claim}': {refuted}" for claim, refuted in found.items() if refuted)
    return Claims(checked=len(found), false=false)


def _shares(
    space: Space, parts: dict[str, tuple[str, int]], proposed: EnvConfig
) -> Iterator[tuple[str, str]]:
    """Whether parts of the data are the proposed shares; nothing where a stratum is given none."""
    total = sum(count for _, count in parts.values())
    if not total or not proposed.strata.keys() <= parts.keys():
        return
    for name, part in proposed.strata.items():
        words, count = parts[name]
        # Shares of two digits each, scaled to sum to 1.
        near = abs(count / total - part.data_ratio) <= 2 * SHARE_ROUNDING
        refuted = "" if near else f"{part.data_ratio:.2f} of the data, {total} parts"
        yield f"{space.label(name)} {words}", refuted


def _marked(text: str, space: Space, words: _Words) -> tuple[str, dict[str, str]]:
    """A text with a mark for each stratum that it names, and what the marks stand for."""
    names = dict(zip(words.labels, space.names, strict=True))

    def mark(match: re.Match[str]) -> str:
        called = " ".join(match.group().split())
        names.setdefault(called, called)
        return chr(_FIRST_MARK + list(names).index(called))

    marked = _patterns(words).stratum.sub(mark, re.sub(f"[{_MARKS}]", "?", _plain(text)))
    return marked, {chr(_FIRST_MARK + number): name for number, name in enumerate(names.values())}


def _words(name: str) -> str:
    """A name as texts have it: `parse_error` is `parse error`."""
    return _plain(name).replace("_", " ")


def _plain(text: str) -> str:
    return text.lower().replace("×", "x")


def _spaced(label: str) -> str:
    """The pattern of a label, whatever blanks its words are apart by."""
    return r"[^\S\n]+".join(map(re.escape, label.split()))
