"""A family of questions with one answer each: all that such a family repeats, so that it writes three things.

Those are `space`, `draw_one` and `judge_one`; `envgen.sums` is a whole one.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import JsonValue, ValidationError

from envgen.config import EnvConfig
from envgen.errors import ConfigError, DataError, ShortageError, describe_validation_error
from envgen.family import Drawn, Knob, Source, Space
from envgen.frozen import Frozen
from envgen.seeds import generator

FRUITLESS = 2_000
"""A draw ends after so many questions that added nothing."""
_TEXTS = ("id", "stratum", "question", "answer")


class PlainInstance(Frozen):
    """A question with its best answer."""

    id: str
    stratum: str
    question: str
    answer: str
    labels: frozenset[str] = frozenset()
    payload: dict[str, JsonValue] = {}
    """What else the judge needs."""


class PlainVerdict(Frozen):
    """Whether an answer is right, and if not, why."""

    valid: bool
    optimal: bool = False
    category: str | None = None
    detail: str = ""
    terms: dict[str, float] = {}

    @property
    def outcome(self) -> str:
        """`valid`, or what went wrong."""
        return (self.category or "valid").replace("_", " ")


class PlainFamily:
    """Base of a `TaskFamily` whose prompt is a question and whose reference is its answer.

    Every field is stored as a column, those that are no text or number as JSON.
    """

    space: Space
    whole: tuple[str, ...] = ()
    """Knobs that are whole numbers of an instance: of 1.5 half of the instances get 1, the others 2."""
    styles = ("plain",)
    schema = pa.schema(
        [pa.field(name, pa.string(), nullable=False) for name in (*_TEXTS, "labels", "payload", "prompt")]
    )
    verdict_schema = pa.schema(
        [
            pa.field("valid", pa.bool_(), nullable=False),
            pa.field("optimal", pa.bool_(), nullable=False),
            pa.field("category", pa.string()),
            pa.field("detail", pa.string(), nullable=False),
            pa.field("terms", pa.string(), nullable=False),
        ]
    )

    def __init__(self, options: Any) -> None:
        """Keep the options; a family whose `space` depends on them makes it here."""
        self.options = options

    def draw_one(self, stratum: str, knobs: Mapping[str, float], rng: np.random.Generator) -> PlainInstance:
        """One instance, all randomness from `rng`; the same again, or one without the labels, is thrown away.

        The knobs are those of this instance: one that asks for a label is 1 if it shall have it, else 0.
        """
        raise NotImplementedError

    def judge_one(self, instance: PlainInstance, answer: str) -> PlainVerdict:
        """The verdict on an answer, which is hostile text; no error, whatever it is."""
        raise NotImplementedError

    def draw(
        self,
        stratum: str,
        knobs: Mapping[str, float],
        count: int,
        source: Source,
        held_out: frozenset[str],
    ) -> Drawn:
        """Distinct instances with exact counts of each label; see `TaskFamily.draw`."""
        kind = self.space[stratum]
        rng, seen, found = generator(*source, stratum), set(held_out), []
        exhausted: list[dict[str, float]] = []
        for index in range(count):
            own = {knob.name: self._own(knob, knobs[knob.name], index, count) for knob in kind.knobs}
            labels = {knob.label.name for knob in kind.knobs if knob.label and own[knob.name]}
            for _ in range(FRUITLESS if own not in exhausted else 0):
                one = self._one(stratum, own, rng)
                if one.id not in seen and one.labels == labels:
                    seen.add(one.id)
                    found.append(one)
                    break
            else:
                exhausted.append(own)
        if len(found) < count:
            short = f"only {len(found)} of {count} distinct instances were found, outside the held-out ones"
            raise ShortageError(f"{kind.label}: {short}; ask for fewer, or change the knobs", found)
        labelled = {knob.word: round(knobs[knob.name] * count) for knob in kind.knobs if knob.label}
        line = ", ".join(f"{number} {word}" for word, number in {"instances": count, **labelled}.items())
        return Drawn(found, {"instances": count, **labelled}, f"{kind.label}: {line}")

    def _one(self, stratum: str, knobs: Mapping[str, float], rng: np.random.Generator) -> PlainInstance:
        try:
            return self.draw_one(stratum, knobs, rng)
        except Exception as error:
            error.add_note(f"draw_one of {type(self).__name__}, stratum {stratum!r}, knobs {dict(knobs)}")
            raise

    def _own(self, knob: Knob, value: float, index: int, count: int) -> float:
        """A knob of instance `index` of `count`: the first ones have the label, the last ones more."""
        if knob.label:
            return float(index < round(value * count))
        if knob.name in self.whole:
            return int(value) + (index >= count - round(value % 1 * count))
        return value

    def check(self, config: EnvConfig, count: int) -> None:
        """ConfigError if the config is not of this family."""
        known = {stratum.name: [knob.name for knob in stratum.knobs] for stratum in self.space.strata}
        for name, part in config.strata.items():
            if [*part.knobs] != known.get(name):
                raise ConfigError(f"{config.key}.{name}: {part} is not of this family")

    def longest_prompt(self, style: str) -> str:
        """The longest of a few, with all knobs at either end of their ranges."""
        rng = np.random.default_rng(0)
        ends = [
            (stratum.name, {knob.name: (knob.low, knob.high)[end] for knob in stratum.knobs})
            for stratum in self.space.strata
            for end in (0, 1)
        ]
        return max((self.prompt(self._one(*end, rng), style) for end in ends for _ in range(10)), key=len)

    def judge(self, instances: Sequence[PlainInstance], answers: Sequence[str]) -> list[PlainVerdict]:
        """A verdict for each answer, in order."""
        return [self.judge_one(*pair) for pair in zip(instances, answers, strict=True)]

    def reserved(self) -> frozenset[str]:
        """No ids: there is no benchmark."""
        return frozenset()

    def prompt(self, instance: PlainInstance, style: str) -> str:
        """The question as it is."""
        return instance.question

    def reference(self, instance: PlainInstance) -> str:
        """The stored answer."""
        return instance.answer

    def measures(self, instance: PlainInstance, verdict: PlainVerdict) -> dict[str, float]:
        """Nothing is measured besides."""
        return {}

    def row(self, instance: PlainInstance, style: str) -> dict[str, Any]:
        """An instance as a row of `schema`."""
        written = {"labels": json.dumps(sorted(instance.labels)), "payload": json.dumps(instance.payload)}
        return {**instance.model_dump(include=set(_TEXTS)), **written, "prompt": self.prompt(instance, style)}

    def instance(self, row: Mapping[str, Any], where: str) -> PlainInstance:
        """The instance of a row; DataError names `where`, field and value."""
        try:
            read = {name: json.loads(row[name]) for name in ("labels", "payload")}
            return PlainInstance(**{name: row[name] for name in _TEXTS}, **read)
        except ValidationError as error:
            raise DataError(describe_validation_error(error, f"{where}: not an instance")) from None
        except ValueError as error:
            raise DataError(f"{where}: not an instance: {error}") from None

    def verdict_row(self, verdict: PlainVerdict) -> dict[str, Any]:
        """A verdict as a row of `verdict_schema`."""
        return verdict.model_dump() | {"terms": json.dumps(verdict.terms)}

    def verdict(self, row: Mapping[str, Any]) -> PlainVerdict:
        """The verdict of a row."""
        return PlainVerdict(**{**row, "terms": json.loads(row["terms"])})

    def picture(
        self, instance: PlainInstance, answer: str | None, verdict: PlainVerdict | None
    ) -> str | None:
        """None: there is nothing to draw."""
        return None


def constant_rates(family: PlainFamily, instances: Sequence[PlainInstance]) -> dict[str, float]:
    """Stratum -> share of its instances, 0 to 1, to which its commonest reference is a valid answer."""
    found = {}
    for name in dict.fromkeys(one.stratum for one in instances):
        own = [one for one in instances if one.stratum == name]
        [(answer, _)] = Counter(one.answer for one in own).most_common(1)
        found[name] = sum(verdict.valid for verdict in family.judge(own, [answer] * len(own))) / len(own)
    return found


def guess_floor(instances: Sequence[PlainInstance]) -> dict[str, float]:
    """The same without a judge: stratum -> share of its commonest reference, 0 to 1."""
    answers: dict[str, list[str]] = {}
    for one in instances:
        answers.setdefault(one.stratum, []).append(one.answer)
    return {name: max(map(found.count, set(found))) / len(found) for name, found in answers.items()}
