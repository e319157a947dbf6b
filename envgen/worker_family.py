"""A family whose generator runs in a worker process: a user's file, or a library that nobody here wrote."""

import hashlib
import re
import time
from collections.abc import Mapping, Sequence
from itertools import chain, islice, product
from typing import NoReturn

import numpy as np

from envgen.environment import Environment, Instance, Verdict
from envgen.errors import ConfigError
from envgen.space import Stratum
from envgen.worker import GeneratorError, Worker

TAGGED = "\n\nGive your final answer between <answer> and </answer>."
LONGEST_ANSWER = 20_000
"""Characters; what is longer is not scored."""
CORNERS = 64
"""Combinations of the ends of its knobs that are tried of a stratum."""
SCORER_FAILED = "scorer_failed"
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


class WorkerFamily(Environment):
    """Base of families over `Worker`, whose methods are `draw` and `score`.

    `draw(stratum, knobs, seed)` returns `question`, `answer`, `identity`, a text, and `entry`, all that
    `score(entry, answer)` needs, which returns a number from 0 to 1; it may return `labels`, and `brief`, a
    short question. An answer is valid that scores 1.
    """

    styles = ("plain", "tagged")
    categories = ("no_answer", "wrong", "near_miss", SCORER_FAILED)
    terms = ("partial",)
    name: str
    worker: Worker

    def generate_one(self, stratum: str, knobs: Mapping[str, float], rng: np.random.Generator) -> Instance:
        """One instance; ConfigError names stratum, knobs and seed where the generator fails."""
        return self.entry(stratum, knobs, int(rng.integers(2**31)))

    def entry(self, stratum: str, knobs: Mapping[str, float], seed: int) -> Instance:
        """The instance of a seed; ConfigError likewise."""
        given = {name: int(value) if name in self.integer_knobs else value for name, value in knobs.items()}
        try:
            drawn = self.worker.call("draw", stratum, given, seed)
        except GeneratorError as error:
            self._fail(stratum, given, seed, str(error))
        if not isinstance(drawn["identity"], str):
            self._fail(stratum, given, seed, f"its identity is {drawn['identity']!r}; expected a text")
        # A label that no knob asks for would not be drawn.
        asked = {knob.label.name for knob in self.space[stratum].knobs if knob.label}
        return Instance(
            id=hashlib.sha256(f"{self.name}\n{drawn['identity']}".encode("utf-8", "replace")).hexdigest()[
                :32
            ],
            stratum=stratum,
            question=drawn["question"],
            answer=drawn["answer"],
            labels=frozenset(drawn.get("labels", ())) & asked,
            payload={"entry": drawn["entry"], **({"brief": drawn["brief"]} if "brief" in drawn else {})},
        )

    def _fail(self, stratum: str, knobs: Mapping[str, float], seed: int, why: str) -> NoReturn:
        settings = ", ".join(f"{name} {value:g}" for name, value in knobs.items())
        where = f"{self.source}: {self.space.label(stratum)}" + (f" with {settings}" if settings else "")
        raise ConfigError(
            f"{where}, seed {seed}: {why}; mend the generator, or narrow the range of its knobs"
        )

    @property
    def source(self) -> str:
        """What messages call the generator."""
        return self.name

    def judge(self, instances: Sequence[Instance], answers: Sequence[str]) -> list[Verdict]:
        """A verdict for each answer, in order; behind the limit of a batch none could be judged."""
        limit, begun = self.worker.limits.batch_seconds, time.monotonic()
        late = _verdict(SCORER_FAILED, f"the answers of one call took more than {limit:g} s", 0)
        return [
            self.judge_one(*pair) if time.monotonic() - begun < limit else late
            for pair in zip(instances, answers, strict=True)
        ]

    def judge_one(self, instance: Instance, answer: str) -> Verdict:
        """The verdict on what stands between the last answer tags, or on all of it where there are none."""
        tagged = _ANSWER.findall(answer[-2 * LONGEST_ANSWER :])
        said = (tagged[-1] if tagged else answer).strip()
        if not said or len(said) > LONGEST_ANSWER:
            detail = f"more than {LONGEST_ANSWER} characters" if said else "nothing"
            return _verdict("no_answer", detail, 0)
        try:
            score = self.worker.call("score", instance.payload["entry"], said)
        except GeneratorError as error:
            return _verdict(SCORER_FAILED, str(error), 0)
        if isinstance(score, bool | int | float) and 0 <= score <= 1 + 1e-9:
            if score >= 1 - 1e-9:
                return Verdict(valid=True, terms={"partial": 1.0})
            category = "near_miss" if score > 0 else "wrong"
            return _verdict(category, f"score {score:.2f}, reference {instance.answer[:200]}", float(score))
        return _verdict(SCORER_FAILED, f"score returned {score!r}; expected a number from 0 to 1", 0)

    def prompt(self, instance: Instance, style: str) -> str:
        """The question, which in style `tagged` asks for answer tags."""
        return instance.question + (TAGGED if style == "tagged" else "")

    def corners(self, stratum: Stratum) -> list[dict[str, float]]:
        """Combinations of the ends of its knobs: all, or of more than `CORNERS` so many, with opposites."""
        every = product(*((knob.low, knob.high) for knob in stratum.knobs))
        if 2 ** len(stratum.knobs) > CORNERS:
            opposite = product(*((knob.high, knob.low) for knob in stratum.knobs))
            every = chain.from_iterable(zip(every, opposite, strict=True))
        names = [knob.name for knob in stratum.knobs]
        return [dict(zip(names, values, strict=True)) for values in islice(every, CORNERS)]

    def longest_prompt(self, style: str) -> str:
        """The longest of those at the corners of the space, each of which is tried.

        ConfigError for a corner where the generator fails, or a reference that does not score 1.
        """
        found = [
            self.entry(stratum.name, corner, seed)
            for stratum in self.space.strata
            for corner in self.corners(stratum)
            for seed in range(3)
        ]
        for instance, verdict in zip(found, self.judge(found, [one.answer for one in found]), strict=True):
            if not verdict.valid:
                raise ConfigError(
                    f"{self.source}: {self.space.label(instance.stratum)}: the reference "
                    f"{instance.answer[:100]!r} of {instance.question[:100]!r} does not score 1: "
                    f"{verdict.detail}; 'envwright family check' shows more"
                )
        return max((self.prompt(one, style) for one in found), key=len)


def _verdict(category: str, detail: str, score: float) -> Verdict:
    return Verdict(valid=False, category=category, detail=detail, terms={"partial": score})
