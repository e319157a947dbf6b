"""The contract of an environment: it draws instances, puts them into words, and judges completions.

An environment is a subclass of `Environment` with `name`, `version`, `space`, `generate_one` and `judge_one`;
`envgen.sums` is a whole example. A preset names it through an entry point (`envgen.registry`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from pydantic import BaseModel, JsonValue

from envgen.config import EnvConfig
from envgen.errors import ConfigError, DataError, ShortageError, excerpt
from envgen.frozen import Frozen
from envgen.seeds import generator
from envgen.space import Knob, Space
from envgen.thinking import final_answer

MAX_REDRAWS = 2_000
"""Draws in a row without a new instance after which a stratum counts as exhausted."""
FAULT_SHARE, FAULT_ANSWERS = 0.01, 1_000
"""Largest share of completions without a verdict, of at least this many."""


class Instance(Frozen):
    """A question with its best answer. Equal problems have equal ids, and only they."""

    id: str
    stratum: str
    labels: frozenset[str] = frozenset()
    """Names of the labels that the instance has."""
    question: str
    answer: str
    payload: dict[str, JsonValue] = {}
    """Further values that `judge_one` needs."""


class Verdict(Frozen):
    """Judgement of one completion."""

    valid: bool
    optimal: bool = False
    category: str | None = None
    """Failure category, of `Space.categories`; None of a valid answer."""
    detail: str = ""
    """One sentence for people."""
    terms: dict[str, float] = {}
    """Reward components of partial progress, 0 to 1, by the names of `Space.terms`."""


class Source(NamedTuple):
    """Seed of a draw, besides its stratum: no two purposes share a random number."""

    seed: int
    stage: int = 0
    purpose: str = "train"
    used: tuple[str, ...] = ()
    """Ids that earlier stages trained on, of an environment with `capacity`; they are drawn last."""

    @property
    def key(self) -> tuple[int, int, str]:
        """Path of the random numbers."""
        return self[:3]


class Sample(NamedTuple):
    """Instances of one stratum."""

    instances: list[Any]
    report: dict[str, int]
    """Requested and achieved numbers by their names."""


class Environment:
    """Base of environments. Methods are pure functions of their arguments and the options."""

    Options: ClassVar[type[BaseModel]] = Frozen
    """Model of the options that a preset may set; none by default."""
    name: str
    version: str
    """Part of every cache key; change it if a seed draws other instances, or verdicts differ."""
    space: Space
    styles: tuple[str, ...] = ("plain",)
    """Ways to put an instance into words; the first is the default."""
    instance_type: type[BaseModel] = Instance
    verdict_type: type[BaseModel] = Verdict
    benchmark: Any = None
    """`envgen.suites.Benchmark`, if `envwright benchmark` knows the environment."""
    picture_legend = ""
    """Sentence that explains the marks of `picture`."""
    licence = "not stated"
    requirements: tuple[str, ...] = ()
    """Packages that judging needs, for exports."""
    file: Path | None = None
    """File of a user that goes along with exports."""

    def __init__(self, options: Any) -> None:
        """Keep the options; an environment whose `space` depends on them makes it here."""
        self.options = options

    def generate_one(self, stratum: str, knobs: Mapping[str, float], rng: np.random.Generator) -> Any:
        """Return one instance, with all randomness from `rng`. A knob of a label is 1 if the instance shall
        have it, else 0; instances with others are thrown away."""
        raise NotImplementedError

    def judge_one(self, instance: Any, answer: str) -> Any:
        """Return the verdict on a completion without its thinking, which is hostile text; never raise."""
        raise NotImplementedError

    def generate(
        self, stratum: str, knobs: Mapping[str, float], count: int, source: Source, held_out: frozenset[str]
    ) -> Sample:
        """Return `count` distinct instances with exact counts of each label, none of them held out.
        ShortageError with the instances if there are too few."""
        kind = self.space[stratum]
        rng, seen, instances = generator(*source.key, stratum), set(held_out), []
        exhausted: list[dict[str, float]] = []
        for values in _spread(kind.knobs, knobs, count, generator(*source.key, stratum, "knobs")):
            labels = {knob.label.name for knob in kind.knobs if knob.label and values[knob.name]}
            for _ in range(MAX_REDRAWS if values not in exhausted else 0):
                instance = self._generate_one(stratum, values, rng)
                if instance.id not in seen and instance.labels == labels:
                    seen.add(instance.id)
                    instances.append(instance)
                    break
            else:
                exhausted.append(values)
        if len(instances) < count:
            short = f"only {len(instances)} of {count} distinct instances exist beside the held-out ones"
            raise ShortageError(f"{kind.label}: {short}; ask for fewer, or change the knobs", instances)
        labelled = {knob.word: round(knobs[knob.name] * count) for knob in kind.knobs if knob.label}
        return Sample(instances, {"instances": count, **labelled})

    def _generate_one(self, stratum: str, knobs: Mapping[str, float], rng: np.random.Generator) -> Any:
        try:
            return self.generate_one(stratum, knobs, rng)
        except Exception as error:
            error.add_note(f"generate_one of {type(self).__name__}, stratum {stratum!r}, knobs {dict(knobs)}")
            raise

    def check(self, config: EnvConfig, count: int) -> None:
        """Raise SamplingError for a config of the space that cannot give `count` instances."""

    def capacity(self, stratum: str) -> int | None:
        """Return the number of rows of a stratum, for instances from a table; None for a generator."""
        return None

    def reserved(self) -> frozenset[str]:
        """Return ids that no data set may hold, such as the ids of a benchmark."""
        return frozenset()

    def prompt(self, instance: Any, style: str) -> str:
        """Return the user message that poses an instance."""
        return instance.question

    def reference(self, instance: Any) -> str:
        """Return a best answer."""
        return instance.answer

    def longest_prompt(self, style: str) -> str:
        """Return a prompt about as long as any: of a few with all knobs at either end of their ranges.
        ConfigError if one of these has a reference that is not valid."""
        rng = np.random.default_rng(0)
        instances = [
            self._generate_one(stratum.name, {knob.name: getattr(knob, end) for knob in stratum.knobs}, rng)
            for stratum in self.space.strata
            for end in ("low", "high")
            for _ in range(10)
        ]
        wrong = wrong_reference(self, instances)
        if wrong and (reference := self.reference(wrong[0])):
            instance, verdict = wrong
            texts = f"{excerpt(reference)} of {excerpt(self.prompt(instance, style))}"
            problem = f"{self.space.label(instance.stratum)}: the reference {texts} is not valid"
            raise ConfigError(f"{self.name}: {problem}: {verdict.detail}; mend generator or scorer")
        return max((self.prompt(instance, style) for instance in instances), key=len)

    def judge(self, instances: Sequence[Any], completions: Sequence[str]) -> list[Any]:
        """Return a verdict for each completion, in order: on what follows its thinking."""
        return self.judge_answers(instances, list(map(final_answer, completions)))

    def judge_answers(self, instances: Sequence[Any], answers: Sequence[str]) -> list[Any]:
        """Return a verdict for each answer, in order."""
        return [self.judge_one(*pair) for pair in zip(instances, answers, strict=True)]

    def measures(self, instance: Any, verdict: Any) -> dict[str, float]:
        """Return the `Space.measures` of a valid answer."""
        return {}

    def picture(self, instance: Any, completion: str | None, verdict: Any | None) -> str | None:
        """Return an SVG of an instance with a completion, or None."""
        return None


def _spread(
    knobs: Sequence[Knob], means: Mapping[str, float], count: int, rng: np.random.Generator
) -> list[dict[str, float]]:
    """Return the knobs of `count` instances: labels and whole numbers with exact counts, and independent.

    Systematic sampling with a random start gives a higher value to each combination of the knobs before it in
    proportion. Instances with the labels come first, then those with smaller numbers.
    """
    rows: list[dict[str, float]] = [{} for _ in range(count)]
    labels = {knob.name for knob in knobs if knob.label}
    for knob in knobs:
        low = 0 if knob.label else int(means[knob.name])
        higher, start = round((means[knob.name] - low) * count), int(rng.integers(max(count, 1)))
        for place, row in enumerate(rows):
            steps = ((place + 1) * higher + start) // count - (place * higher + start) // count
            row[knob.name] = low + steps if knob.label or knob.whole else means[knob.name]
        rows.sort(key=lambda row: [-value if name in labels else value for name, value in row.items()])
    return rows


def wrong_reference(environment: Environment, instances: Sequence[Any]) -> tuple[Any, Any] | None:
    """Return the first instance without a valid reference, and the verdict on what it has."""
    references = [environment.reference(instance) for instance in instances]
    answered = zip(instances, references, environment.judge(instances, references), strict=True)
    return next(((instance, v) for instance, text, v in answered if not (text and v.valid)), None)


class FaultCount:
    """Number of completions of one stage, or one evaluation, that could not be scored. They are no failures
    of the policy: a reward of 0 would teach it to break the scorer."""

    def __init__(self, space: Space) -> None:
        self._category, self._details, self._answers = space.fault, list[str](), 0

    def add(self, verdicts: Sequence[Any], *, last: bool = False) -> None:
        """Count verdicts; DataError if too many completions so far had none. `last`: no more will follow."""
        self._answers += len(verdicts)
        self._details += [v.detail for v in verdicts if self._category and v.category == self._category]
        if len(self._details) > FAULT_SHARE * (self._answers if last else max(self._answers, FAULT_ANSWERS)):
            raise DataError(
                f"{len(self._details)} of {self._answers} answers could not be judged, more than "
                f"{FAULT_SHARE:.0%}: {self._details[-1]}; mend the scorer, then run the command again"
            )
