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
from contextlib import closing
from functools import cached_property
from itertools import islice, product
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import Field, ValidationInfo, field_validator, model_validator

from envgen.environment import Environment, Instance, Verdict
from envgen.errors import ConfigError, DataError, UnreadableError
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
_PATH = re.compile(r"\.(py|parquet|jsonl|csv)(:\w+)?$")


class WorkerOptions(Frozen):
    """Options of an environment whose code or rows are read when the preset is read."""

    limits: Limits = Limits()
    described: Any = None
    """What a run shows of code and rows that may be gone; filled in when the preset is read."""

    def worker(self) -> Worker:
        """Return the process that loads the code; ConfigError if there is no interpreter for it."""
        raise NotImplementedError

    def describe(self, worker: Worker) -> Any:
        """Return the value of `described`; DataError, ConfigError or GeneratorError if there is none."""
        raise NotImplementedError

    @field_validator("file", "source", "scorer", check_fields=False)
    @classmethod
    def _absolute(cls, value: Any, info: ValidationInfo) -> Any:
        """Return a path from the folder of the preset; a name as it is."""
        path = (Path((info.context or {}).get("folder", ".")) / value).resolve()
        named = info.field_name != "scorer" and (path.is_dir() or str(value).startswith("."))
        return type(value)(path) if named or _PATH.search(str(value).lower()) else value

    @model_validator(mode="after")
    def _describe(self) -> Self:
        if self.described:
            return self
        try:
            with closing(self.worker()) as worker:
                return self.model_copy(update={"described": self.describe(worker)})
        except (ConfigError, DataError, GeneratorError) as error:
            raise ValueError(str(error)) from None


class WorkerEnvironment(Environment):
    """Base of environments over a `Worker` with the methods `generate` and `score`; options have a `worker`.

    `generate(stratum, knobs, seed)` returns `question`, `answer`, `identity` (texts) and `entry`, and may
    return `labels` and `brief`, a short question. `score(entry, answer)` returns a number from 0 to 1.
    """

    threshold = 1.0
    """Lowest score of a valid answer."""
    styles = ("plain", "tagged")

    @cached_property
    def worker(self) -> Worker:
        """Process that has loaded the code."""
        return self.options.worker()

    def _space(self, canonical: bool, **fields: Any) -> Space:
        return Space(
            guideline="Give most data to what is solved sometimes, little to what always or never is.",
            categories=("no_answer", "wrong", "near_miss", SCORER_FAILED),
            fault=SCORER_FAILED,
            identity="canonical" if canonical else "textual",
            terms=("partial",),
            **fields,
        )

    def generate_one(self, stratum: str, knobs: Mapping[str, float], rng: np.random.Generator) -> Instance:
        """Return one instance; ConfigError names stratum, knobs and seed where the generator fails."""
        return self.entry(stratum, knobs, int(rng.integers(2**31)))

    def entry(self, stratum: str, knobs: Mapping[str, float], seed: int) -> Instance:
        """Return the instance of a seed; ConfigError as `generate_one`."""
        kinds = self.space[stratum].knobs
        values = {knob.name: int(knobs[knob.name]) if knob.whole else knobs[knob.name] for knob in kinds}
        try:
            drawn = self.worker.call("generate", stratum, values, seed)
        except GeneratorError as error:
            settings = ", ".join(f"{name} {value:g}" for name, value in values.items())
            where = self.space.label(stratum) + (f" with {settings}" if settings else "")
            remedy = "mend the generator, or narrow the range of its knobs"
            raise ConfigError(f"{where}, seed {seed}: {error}; {remedy}") from None
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
            return _failed(SCORER_FAILED, str(error))
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
        return _failed(SCORER_FAILED, f"{self.worker.source}: score: {problem}")

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


class Options(WorkerOptions):
    """Options of `module`."""

    file: Path
    """Path of the generator; a relative one starts from the folder of the preset."""
    described: Description | None = None

    def worker(self) -> Worker:
        """Return the process that loads the file, which must not change once it is described."""
        arguments = {"path": str(self.file), "sha256": self.described and self.described.sha256}
        return Worker(str(self.file), "envgen.module.user_file:Generator", arguments, self.limits)

    def describe(self, worker: Worker) -> Description:
        """Return what the file holds."""
        return Description.model_validate(worker.call("describe"))


class ModuleEnvironment(WorkerEnvironment):
    """A user's own generator, in one Python file."""

    name = "module"
    Options = Options

    def __init__(self, options: Options) -> None:
        assert options.described
        self.options, self.file = options, options.file
        self.version = f"2 {options.described.sha256}"
        self.space = self._space(
            options.described.canonical,
            strata=options.described.strata,
            noun="task",
            task=options.described.task or f"answers the questions of {options.file.stem}",
        )
