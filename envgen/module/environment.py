"""Environments whose generator runs in a child process, and `module`: a user's generator in one file.

environment:
  name: module
  options: {file: ./products.py}

`envgen.module.user_file` describes the file; `envwright new environment` writes one.
"""

import hashlib
import re
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import islice, product
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import Field, ValidationInfo, field_validator, model_validator

from envgen.environment import Environment, Instance, Verdict
from envgen.errors import ConfigError, UnreadableError
from envgen.frozen import Frozen
from envgen.module.worker import GeneratorError, Limits, Worker
from envgen.space import Space, Stratum

TAGGED = "\n\nGive your final answer between <answer> and </answer>."
MAX_ANSWER = 20_000
"""Characters; longer answers are not scored."""
MAX_CORNERS = 64
"""Combinations of the ends of the knobs that are tried per stratum."""
SCORER_FAILED = "scorer_failed"
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


class WorkerEnvironment(Environment):
    """Base of environments over a `Worker` with the methods `draw` and `score`.

    `draw(stratum, knobs, seed)` returns `question`, `answer`, `identity` (a text) and `entry`, and may return
    `labels` and `brief`, a short question. `score(entry, answer)` returns a number from 0 to 1; only 1 is
    valid, unless `threshold` is lower.
    """

    threshold = 1.0
    """Lowest score of a valid answer."""
    styles = ("plain", "tagged")
    worker: Worker
    source: str
    """Name of the generator in messages."""

    def _space(self, **fields: Any) -> Space:
        categories = ("no_answer", "wrong", "near_miss", SCORER_FAILED)
        return Space(categories=categories, terms=("partial",), fault=SCORER_FAILED, **fields)

    def generate_one(self, stratum: str, knobs: Mapping[str, float], rng: np.random.Generator) -> Instance:
        """Return one instance; ConfigError names stratum, knobs and seed where the generator fails."""
        return self.entry(stratum, knobs, int(rng.integers(2**31)))

    def entry(self, stratum: str, knobs: Mapping[str, float], seed: int) -> Instance:
        """Return the instance of a seed; ConfigError as `generate_one`."""
        kinds = self.space[stratum].knobs
        values = {knob.name: int(knobs[knob.name]) if knob.whole else knobs[knob.name] for knob in kinds}
        try:
            drawn = self.worker.call("draw", stratum, values, seed)
            if not isinstance(drawn["identity"], str):
                raise GeneratorError(f"its identity is {drawn['identity']!r}; expected a text")
        except GeneratorError as error:
            settings = ", ".join(f"{name} {value:g}" for name, value in values.items())
            where = f"{self.source}: {self.space.label(stratum)}" + (f" with {settings}" if settings else "")
            remedy = "mend the generator, or narrow the range of its knobs"
            raise ConfigError(f"{where}, seed {seed}: generate: {error}; {remedy}") from None
        identity = f"{self.name}\n{drawn['identity']}".encode("utf-8", "replace")
        # Only labels that a knob sets can have exact counts.
        asked = {knob.label.name for knob in kinds if knob.label}
        return Instance(
            id=hashlib.sha256(identity).hexdigest()[:32],
            stratum=stratum,
            labels=frozenset(drawn.get("labels", ())) & asked,
            question=drawn["question"],
            answer=drawn["answer"],
            payload={name: drawn[name] for name in ("entry", "brief") if name in drawn},
        )

    def judge_answers(self, instances: Sequence[Instance], answers: Sequence[str]) -> list[Verdict]:
        """Return a verdict for each answer; stop to score at the deadline of the batch."""
        limit, start = self.options.limits.batch_seconds, time.monotonic()
        late = f"the answers of one call took more than {limit:g} s; raise limits.batch_seconds"
        return [
            self.judge_one(*pair) if time.monotonic() - start < limit else self._fault(late)
            for pair in zip(instances, answers, strict=True)
        ]

    def judge_one(self, instance: Instance, answer: str) -> Verdict:
        """Return the verdict on an answer; of one with answer tags, on the text between the last ones."""
        tagged = _ANSWER.findall(answer[-2 * MAX_ANSWER :]) if "tagged" in self.styles else []
        answer = (tagged[-1] if tagged else answer).strip()
        if not answer or len(answer) > MAX_ANSWER:
            return _failed("no_answer", f"more than {MAX_ANSWER} characters" if answer else "nothing")
        try:
            score = self.score(instance, answer)
        except UnreadableError as error:
            return _failed("no_answer", str(error))
        except GeneratorError as error:
            return self._fault(str(error))
        if not isinstance(score, bool | int | float) or not 0 <= score <= 1 + 1e-9:
            return self._fault(f"returned {score!r:.80}; expected a number from 0 to 1")
        if score >= self.threshold - 1e-9:
            return Verdict(valid=True, terms={"partial": min(float(score), 1.0)})
        category = "near_miss" if score > 0 else "wrong"
        reference = f", reference {instance.answer[:200]}" if instance.answer else ""
        return _failed(category, f"score {score:.2f}{reference}", float(score))

    def score(self, instance: Instance, answer: str) -> Any:
        """Return what the scorer says of an answer; GeneratorError if it fails, UnreadableError if the answer
        holds nothing to compare."""
        return self.worker.call("score", instance.payload["entry"], answer)

    def _fault(self, problem: str) -> Verdict:
        return _failed(SCORER_FAILED, f"{self.source}: score: {problem}")

    def prompt(self, instance: Instance, style: str) -> str:
        """Return the question; style `tagged` asks for answer tags."""
        return instance.question + (TAGGED if style == "tagged" else "")

    def corners(self, stratum: Stratum) -> list[dict[str, float]]:
        """Return combinations of the ends of the knobs, at most `MAX_CORNERS`; each end occurs."""
        highest = {knob.name: knob.high for knob in stratum.knobs}
        ends = product(*((knob.low, knob.high) for knob in stratum.knobs))
        corners = [dict(zip(highest, values, strict=True)) for values in islice(ends, MAX_CORNERS)]
        return [*corners[:-1], highest]


def _failed(category: str, detail: str, score: float = 0.0) -> Verdict:
    return Verdict(valid=False, category=category, detail=detail, terms={"partial": score})


class Description(Frozen):
    """Contents of a generator file that a space needs."""

    sha256: str
    """Digest of the file."""
    task: str | None
    canonical: bool
    """Whether the file has an `identity` function."""
    strata: tuple[Stratum, ...] = Field(min_length=1)


class Options(Frozen):
    """Options of `module`."""

    file: Path
    """Path of the generator; a relative one starts from the folder of the preset."""
    limits: Limits = Limits()
    described: Description | None = None
    """Filled in when the preset is read, so that a run can be shown without the file."""

    @field_validator("file")
    @classmethod
    def _absolute(cls, file: Path, info: ValidationInfo) -> Path:
        return (Path((info.context or {}).get("folder", ".")) / file).resolve()

    @model_validator(mode="after")
    def _describe(self) -> Self:
        if self.described:
            return self
        if not self.file.is_file():
            raise ValueError(f"{self.file}: there is no such file; give the path of a generator")
        worker = Worker(_OPENER, {"path": str(self.file)}, self.limits)
        try:
            return self.model_copy(update={"described": Description.model_validate(worker.call("describe"))})
        except (ConfigError, GeneratorError) as error:
            raise ValueError(f"{self.file}: {error}") from None
        finally:
            worker.close()


_OPENER = "envgen.module.user_file:open_file"


class ModuleEnvironment(WorkerEnvironment):
    """A user's own generator, in one Python file."""

    name = "module"
    Options = Options
    file: Path  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, options: Options, hash_seed: int = 0) -> None:
        assert options.described
        self.options, self.described, self._hash_seed = options, options.described, hash_seed
        self.file, self.source = options.file, str(options.file)
        self.version = f"2 {options.described.sha256}"
        self.space = self._space(
            strata=options.described.strata,
            noun="task",
            task=options.described.task or f"answers the questions of {options.file.stem}",
            guideline="Give most data to what is solved sometimes, little to what always or never is.",
            identity="canonical" if options.described.canonical else "textual",
        )

    @cached_property
    def worker(self) -> Worker:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Process that has loaded the file; ConfigError if the file is gone."""
        if not self.options.file.is_file():
            raise ConfigError(f"environment.options.file: {self.file} is not there; put the generator back")
        arguments = {"path": str(self.file), "sha256": self.described.sha256}
        return Worker(_OPENER, arguments, self.options.limits, self._hash_seed)
