"""Whether a rationale says what is true: the claims in it that the numbers of its stage can decide.

A clause ends at a semicolon, a line break, or a point that no digit follows. Checked are, of the strata that
it names: percentages and values of knobs, if it names one stratum; which way a knob moved, from the config of
the stage to the proposed one after projection, in the two digits that are shown; how often a stratum is said
to be solved; and its parts of the data, if every stratum is given some. What is negated, compared with
another stratum or only bounded ("over 50%") is not checked, nor what other words say.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import NamedTuple

from pydantic import Field

from engineer.answer import MAX_RATIONALE, SHARE_ROUNDING
from engineer.claim_patterns import KEPT, PARTS, STRATA, Words, marked, patterns, plain, spelled
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


class _Clause(NamedTuple):
    """A clause, and what its claims are checked against. Claims come with the numbers that refute them, "" if
    they hold."""

    text: str
    strata: dict[str, str]
    """Mark -> name of a stratum; what reads like a stratum but is none has its own words for a name."""
    space: Space
    words: Words
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
        for match in patterns(self.words).move.finditer(self.text):
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
        for match in KEPT.finditer(self.text):
            for name in self._strata(match["strata"]):
                moved = {knob: pair for knob, pair in self._numbers(name).items() if pair[0] != pair[1]}
                changes = (f"{self._word(knob)} {old:.2f} → {new:.2f}" for knob, (old, new) in moved.items())
                yield name, match["words"], ", ".join(changes)

    def _percentages(self, name: str) -> Iterator[tuple[str, str, str]]:
        rates = self._rates(name)
        shares = {SHARE, *(knob.name for knob in self.space.knobs if knob.low >= 0 and knob.high <= 1)}
        ratios = [ratio for knob, pair in self._numbers(name).items() if knob in shares for ratio in pair]
        shown = [*rates.values(), *(round(100 * ratio) for ratio in ratios)]
        for match in patterns(self.words).percentage.finditer(self.text):
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
        for match in patterns(self.words).value.finditer(self.text):
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
            for match in PARTS.finditer(self.text)
            if not self._denied(match.start())
            for name in self._about(match.start())
        }

    def _denied(self, at: int) -> bool:
        """Whether what stands at a place is denied by the words before it."""
        return _DENIED.search(self.text[max(0, at - _DENIED_WITHIN) : at]) is not None

    def _about(self, at: int) -> tuple[str, ...]:
        """The strata that are named last before a place, or else the only ones."""
        named = list(re.finditer(STRATA, self.text))
        before = [match.group() for match in named if match.end() <= at]
        before = before or [match.group() for match in named if len(named) == 1]
        return self._strata(before[-1]) if before else ()

    def _strata(self, text: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.strata[mark] for mark in text if mark in self.strata))

    def _knobs(self, text: str) -> list[str]:
        """Names of the knobs that a text names."""
        found = (word.replace("_", " ") for word in patterns(self.words).knob.findall(text))
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
        rates = {spelled(name): round(100 * count / part.n) for name, count in counts.items()}
        for knob in self.space.asked:
            has = part.labels.get(knob.label.name) if knob.label else None
            if has and has.n:
                rates[plain(knob.word)] = round(100 * has.valid / has.n)
            if has and has.n < part.n:
                rates[f"without {plain(knob.word)}"] = round(
                    100 * (part.valid - has.valid) / (part.n - has.n)
                )
        return rates


def check_claims(
    space: Space,
    rationale: str,
    config: EnvConfig,
    proposed: EnvConfig,
    breakdown: Breakdown,
    whole: str | None = None,
) -> Claims:
    """The claims of a rationale for `proposed`, written after a stage on `config` that left `breakdown`.

    Of one clause, if `whole` is the rationale that it is of: its parts of the data are parts of all.
    """
    numbers = config, proposed, breakdown
    clauses, found = list(_clauses(space, rationale, *numbers)), dict[str, str]()
    for clause in clauses:
        found |= clause.claims()
    parts = _parts(clauses)
    of_all = parts if whole is None else _parts(_clauses(space, whole, *numbers))
    found |= _shares(space, parts, of_all, proposed)
    false = tuple(f"'{claim}': {refuted}" for claim, refuted in found.items() if refuted)
    return Claims(checked=len(found), false=false)


def _clauses(
    space: Space, rationale: str, config: EnvConfig, proposed: EnvConfig, breakdown: Breakdown
) -> Iterator[_Clause]:
    words = Words.of(space)
    text, strata = marked(rationale[:MAX_RATIONALE], space, words)
    for part in re.split(CLAUSE_END, text):
        yield _Clause(" ".join(part.split()), strata, space, words, config, proposed, breakdown)


def _parts(clauses: Iterable[_Clause]) -> dict[str, tuple[str, int]]:
    """Stratum -> (words, count) of the parts of the data that it is given."""
    return {name: given for clause in clauses for name, given in clause.parts().items()}


def _shares(
    space: Space, said: dict[str, tuple[str, int]], parts: dict[str, tuple[str, int]], proposed: EnvConfig
) -> Iterator[tuple[str, str]]:
    """Whether what is said of parts of the data are the proposed shares; nothing where a stratum is given
    none."""
    total = sum(count for _, count in parts.values())
    if not total or not proposed.strata.keys() <= parts.keys():
        return
    for name in (name for name in proposed.strata if name in said):
        words, count = said[name]
        share = proposed.strata[name].data_ratio
        # Shares of two digits each, scaled to sum to 1.
        near = abs(count / total - share) <= 2 * SHARE_ROUNDING
        yield f"{space.label(name)} {words}", "" if near else f"{share:.2f} of the data, {total} parts"
