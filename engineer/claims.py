"""Whether a rationale says what is true: the claims in it that the numbers of its stage can decide.

A clause ends at a semicolon, a line break, or a point that no digit follows. Checked are, of the map sizes that it names:
percentages, if it names one size; which way a knob moved, from the config of the stage to the proposed one after projection,
in the two digits that are shown; and how often a size is said to be solved. What is negated, compared with another size or
only bounded ("over 50%") is not checked, nor what other words say.
"""

import re
from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

from pydantic import Field

from engineer.answer import KNOBS, MAX_RATIONALE
from envgen.breakdown import Breakdown
from envgen.config import EnvConfig
from envgen.frozen import Frozen
from envgen.mapf.verifier import FailureCategory

TOLERANCE = 1
"""Points by which a percentage may miss the number shown; one that says which number it is has to be nearer than this."""
LEVELS: dict[str, Callable[[float], bool]] = {
    "mostly (?:solved|valid)": lambda percent: percent > 50,
    "rarely (?:solved|valid)": lambda percent: percent < 33,
    "nearly (?:all|always) (?:solved|valid)": lambda percent: percent >= 85,
    "(?:solved|valid) about half of the time": lambda percent: 30 <= percent <= 70,
}
"""Words, and the percent valid of which they are true."""

_NAMES: dict[str, str] = dict(zip(KNOBS, ("data", "holes", "waits"), strict=True))
_FAILURES = {category.replace("_", " "): category for category in FailureCategory}
_NOT = r"(?<!\bno )(?<!\bnot )(?<!\bwithout )"
_AND = "(?:, and |, | and | & |/)"
_SIZE = r"(?<![\w.])\d{1,4}[x×]\d{1,4}(?!\w)"
_SIZES = rf"{_SIZE}(?:{_AND}{_SIZE})*"
_KNOB = r"\b(?:data|share|hole|wait)s?(?:[ _](?:share|ratio)s?)?\b"
_KNOBS = rf"{_KNOB}(?:{_AND}{_KNOB})*"
_MOVE = re.compile(
    rf"{_NOT}\b(?P<word>more|less|fewer|(?:rais|increas|reduc)(?:e[sd]?|ing)|lower(?:s|ed|ing)?|cuts?)\b(?: (?:of|the|its|their|training)\b)*"
    rf"(?: (?P<knobs>{_KNOBS}))?(?P<to> (?:for|of|to|on|in|at)\b(?! [\d.]+(?![\dx×.])))?(?: (?P<sizes>{_SIZES}))?(?: (?P<after>{_KNOBS}))?(?! than\b)"
)
_KEPT = re.compile(
    rf"(?P<sizes>{_SIZES})(?:(?: [^:x×]*)?: | (?:(?:is|are|stays?|remains?) )?(?:left )?)(?P<words>as it is|unchanged|kept)(?= ?(?:,|$|as it is))"
)
_RATE = rf"(?:valid|solved|optimal|{'|'.join(_FAILURES)})"
_PERCENTAGE = re.compile(
    r"(?P<hedge>\b(?:over|above|than|least|most|under|below|about|around|roughly|nearly|almost|nearest|by) |~ ?)?"
    rf"(?:\b(?P<label>{_RATE}|(?<=valid, )waits) )?(?<![\d.])(?P<number>\d{{1,9}}(?:\.\d{{1,9}})?) ?%"
    rf"(?: (?P<name>{_RATE})s?\b(?! (?:where|when|if|with|(?:on|for) (?:the )?boards)\b))?"
)


class Claims(Frozen):
    """The claims of a rationale that can be checked."""

    checked: int = Field(ge=0)
    """How many different ones there are."""
    false: tuple[str, ...]
    """Those that do not hold, each with what the numbers say: `'3x3 mostly solved': 46% valid`."""

    @property
    def true(self) -> int:
        """How many hold."""
        return self.checked - len(self.false)


class _Clause(NamedTuple):
    """A clause, and what its claims are checked against. Claims come with the numbers that refute them, "" if they hold."""

    text: str
    config: EnvConfig
    proposed: EnvConfig
    breakdown: Breakdown

    def claims(self) -> Iterator[tuple[str, str]]:
        known, named = self.config.sizes.keys() | self.proposed.sizes.keys(), set(_sizes(self.text))
        yield from ((f"{size}x{size}", "no such map size") for size in sorted(named - known))
        for size, claim, refuted in (*self._levels(), *self._moves(), *self._kept(), *(self._percentages(*named) if len(named) == 1 else ())):
            if size in known:
                yield f"{size}x{size} {claim}", refuted

    def _levels(self) -> Iterator[tuple[int, str, str]]:
        for words, holds in LEVELS.items():
            for match in re.finditer(rf"{_NOT}\b{words}\b", self.text):
                for size in self._about(match.start()):
                    part = self.breakdown.sizes.get(size)
                    rate = 100 * part.valid / part.n if part and part.n else None
                    yield size, match.group(), "not evaluated" if rate is None else "" if holds(rate) else f"{rate:.0f}% valid"

    def _moves(self) -> Iterator[tuple[int, str, str]]:
        last = ["data_ratio"]
        for match in _MOVE.finditer(self.text):
            knobs, sizes, to = _knobs(match["knobs"] or match["after"] or ""), _sizes(match["sizes"] or ""), match["to"]
            if not knobs and to in (None, " for", " of"):
                knobs = last
            elif knobs and not sizes and not to:
                sizes = self._about(match.start())
            last = knobs or last
            sign = 1 if match["word"].startswith(("more", "rais", "incr")) else -1
            for size, knob in product(sizes, knobs):
                old, new = self._knob(size, knob)
                yield size, f"{match['word']} {_NAMES[knob]}", "" if sign * (new - old) > 0 else f"{old:.2f} → {new:.2f}"

    def _kept(self) -> Iterator[tuple[int, str, str]]:
        for match in _KEPT.finditer(self.text):
            for size in _sizes(match["sizes"]):
                moves = {name: self._knob(size, knob) for knob, name in _NAMES.items()}
                yield size, match["words"], ", ".join(f"{name} {old:.2f} → {new:.2f}" for name, (old, new) in moves.items() if old != new)

    def _percentages(self, size: int) -> Iterator[tuple[int, str, str]]:
        rates = self._rates(size)
        shown = [*rates.values(), *(round(100 * ratio) for knob in KNOBS for ratio in self._knob(size, knob))]
        for match in _PERCENTAGE.finditer(self.text):
            number, name = float(match["number"]), match["label"] or match["name"]
            if name is None:
                holds, said = any(abs(number - one) <= TOLERANCE for one in shown), "not a number of this map size"
            else:
                said = "not evaluated" if name not in rates else f"waits {rates[name]}%" if name == "waits" else f"{rates[name]}% {name}"
                holds = name in rates and abs(number - rates[name]) < TOLERANCE
            if not match["hedge"]:
                yield size, match.group(), "" if holds else said

    def _about(self, at: int) -> tuple[int, ...]:
        """The map sizes that are named last before a place, or else the only ones."""
        named = list(re.finditer(_SIZES, self.text))
        before = [match.group() for match in named if match.end() <= at] or [match.group() for match in named if len(named) == 1]
        return _sizes(before[-1]) if before else ()

    def _knob(self, size: int, knob: str) -> tuple[float, float]:
        """Old and new, in two digits; 0 of a size that a config does not name."""
        old, new = (round(getattr(config.sizes[size], knob), 2) if size in config.sizes else 0.0 for config in (self.config, self.proposed))
        return old, new

    def _rates(self, size: int) -> dict[str, int]:
        """Percent of the answers, as they are shown; empty without answers."""
        part = self.breakdown.sizes.get(size)
        if part is None or not part.n:
            return {}
        counts = {"optimal": part.optimal} | {name: part.failures.get(category, 0) for name, category in _FAILURES.items()}
        rates = {"valid": part.valid_percent, "solved": part.valid_percent, "waits": part.waiting_percent, "moves": part.moving_percent}
        return {name: rate for name, rate in rates.items() if rate is not None} | {name: round(100 * count / part.n) for name, count in counts.items()}


def check_claims(rationale: str, config: EnvConfig, proposed: EnvConfig, breakdown: Breakdown) -> Claims:
    """The claims of a rationale for `proposed`, written after a stage on `config` that left `breakdown`."""
    found: dict[str, str] = {}
    for text in re.split(r"[;\n]|\.(?!\d)", rationale[:MAX_RATIONALE].lower()):
        found |= _Clause(" ".join(text.split()), config, proposed, breakdown).claims()
    return Claims(checked=len(found), false=tuple(f"'{claim}': {refuted}" for claim, refuted in found.items() if refuted))


def _sizes(text: str) -> tuple[int, ...]:
    sides = (re.split("[x×]", size) for size in re.findall(_SIZE, text))
    return tuple(dict.fromkeys(int(one) for one, other in sides if int(one) == int(other)))


def _knobs(text: str) -> list[str]:
    return [next((knob for knob in KNOBS if knob.startswith(word[:4])), KNOBS[0]) for word in re.findall(_KNOB, text)]
