"""What is wrong with a generator file, found by running it: `envwright family check`."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from envgen.config import SHARE
from envgen.environment import Instance, constant_rates
from envgen.errors import ConfigError
from envgen.frozen import Frozen
from envgen.module.family import ModuleFamily
from envgen.rows import instance_of, instance_row, instance_schema
from envgen.space import Stratum
from envgen.worker_family import SCORER_FAILED

ITEMS = 200
"""Drawn of each stratum, with its knobs in the middle of their ranges."""
GUESS_LIMIT = 0.3
"""A stratum where one answer to all questions is right more often teaches guessing."""
FEWEST = 200
"""Distinct questions that a stratum should have at least."""
JUNK = (
    "0",
    "1",
    "-1",
    "yes",
    "no",
    "True",
    "None",
    "banana",
    "[]",
    "{}",
    "nan",
    "inf",
    "1e999",
    "9" * 5_000,
    "9**9**9",
    "__import__('os')",
    "\0",
    "\u0663\u0664",
    "\ud800",
    "(" * 3_000,
    "<answer>",
    "x" * 20_000,
)
"""Answers that no question asks for, and that have broken scorers."""


class Finding(Frozen):
    """The result of one check."""

    check: str
    ok: bool
    detail: str


def check_generator(build: Callable[[int], ModuleFamily]) -> Iterator[Finding]:
    """Findings one by one; `build(hash seed)` opens the file in a process of its own.

    Ends early where the generator cannot be used at all.
    """
    family, other = build(0), build(1)
    try:
        yield from _corners(family)
        drawn = {stratum.name: list(_draw(family, stratum)) for stratum in family.space.strata}
        yield _deterministic(family, drawn, "twice in one process")
        yield _deterministic(other, drawn, "in another process, with another hash seed")
        yield _references(family, drawn)
        yield _stored(family, drawn)
        yield _junk(family, drawn)
        yield from _guessing(family, drawn)
        yield from _capacity(family, drawn)
    except ConfigError as error:
        yield Finding(check="draws and scores", ok=False, detail=str(error))
    finally:
        family.worker.close()
        other.worker.close()


def _middle(stratum: Stratum) -> dict[str, float]:
    return {knob.name: (knob.low + knob.high) / 2 for knob in stratum.knobs}


def _own(family: ModuleFamily, stratum: Stratum, seed: int) -> dict[str, float]:
    """The middle of its knobs for one question: of 1.5 every other one gets 1, the rest 2."""
    return {
        name: int(value + seed % 2 / 2) if name in family.integer_knobs else value
        for name, value in _middle(stratum).items()
    }


def _draw(family: ModuleFamily, stratum: Stratum) -> Iterator[Instance]:
    for seed in range(ITEMS):
        yield family.entry(stratum.name, _own(family, stratum, seed), seed)


def _corners(family: ModuleFamily) -> Iterator[Finding]:
    """Draws at the ends of all knobs, timed."""
    for stratum in family.space.strata:
        slowest, at = 0.0, {}
        for corner in family.corners(stratum):
            begun = time.perf_counter()
            for seed in range(5):
                family.entry(stratum.name, corner, seed)
            spent = (time.perf_counter() - begun) / 5
            if spent >= slowest:
                slowest, at = spent, corner
        where = ", ".join(f"{name} {value:g}" for name, value in at.items()) or "no knobs"
        detail = f"slowest at {where}: {slowest * 1e3:.1f} ms a question"
        yield Finding(check=f"{stratum.label}: ends of its knobs", ok=True, detail=detail)


def _deterministic(family: ModuleFamily, drawn: dict[str, list[Instance]], how: str) -> Finding:
    check = f"the same again, {how}"
    for stratum in family.space.strata:
        for seed, (first, again) in enumerate(zip(drawn[stratum.name], _draw(family, stratum), strict=True)):
            if first != again:
                field = next(
                    name for name in Instance.model_fields if _field(first, name) != _field(again, name)
                )
                detail = (
                    f"{stratum.label}, seed {seed}: {field} was {_field(first, field)!r:.80}, then "
                    f"{_field(again, field)!r:.80}; take all randomness from rng, and iterate no set"
                )
                return Finding(check=check, ok=False, detail=detail)
    return Finding(check=check, ok=True, detail=f"{ITEMS} questions of each stratum")


def _field(instance: Instance, name: str) -> Any:
    return getattr(instance, name)


def _references(family: ModuleFamily, drawn: dict[str, list[Instance]]) -> Finding:
    every = [one for found in drawn.values() for one in found]
    begun = time.perf_counter()
    verdicts = family.judge(every, [one.answer for one in every])
    speed = len(every) / (time.perf_counter() - begun)
    for instance, verdict in zip(every, verdicts, strict=True):
        if not verdict.valid:
            detail = (
                f"{instance.answer!r:.80} to {instance.question!r:.80}: {verdict.category}, {verdict.detail}"
            )
            return Finding(check="references score 1", ok=False, detail=detail)
    return Finding(check="references score 1", ok=True, detail=f"{len(every)}, {speed:,.0f} answers a second")


def _stored(family: ModuleFamily, drawn: dict[str, list[Instance]]) -> Finding:
    """What is read back from a data set, JSON in Parquet, is the same question with the same verdict."""
    check = "the same when stored and read"
    every = [one for found in drawn.values() for one in found]
    try:
        table = pa.Table.from_pylist(
            [instance_row(family, one, "plain") for one in every], schema=instance_schema(family)
        )
    except (UnicodeEncodeError, pa.ArrowException) as error:
        return Finding(check=check, ok=False, detail=f"cannot be stored: {error}")
    read = [instance_of(family, row, "row") for row in table.to_pylist()]
    for one, again, verdict in zip(
        every, read, family.judge(read, [one.answer for one in every]), strict=True
    ):
        if one != again or not verdict.valid:
            return Finding(check=check, ok=False, detail=f"{one.question!r:.80} is not")
    return Finding(check=check, ok=True, detail=f"{len(every)} questions as JSON and Parquet")


def _junk(family: ModuleFamily, drawn: dict[str, list[Instance]]) -> Finding:
    """Junk is neither right nor the end of the scorer."""
    for found in drawn.values():
        answers = (*JUNK, found[0].question)
        for answer, verdict in zip(answers, family.judge([found[0]] * len(answers), answers), strict=True):
            known = any(answer.strip() == one.answer.strip() for one in found)
            if verdict.category == SCORER_FAILED or (verdict.valid and not known):
                what = verdict.detail if verdict.category else "scores 1"
                detail = f"{answer!r:.40} to {found[0].question!r:.80}: {what}"
                return Finding(check="junk answers", ok=False, detail=detail)
    return Finding(
        check="junk answers", ok=True, detail=f"{len(JUNK) + 1} a stratum, none right, none breaks the scorer"
    )


def _guessing(family: ModuleFamily, drawn: dict[str, list[Instance]]) -> Iterator[Finding]:
    for name, floor in constant_rates(family, [one for found in drawn.values() for one in found]).items():
        commonest = Counter(one.answer for one in drawn[name]).most_common(1)[0][0]
        detail = f"{commonest!r:.40} to every question is right for {floor:.1%}"
        yield Finding(check=f"{name}: one answer to all", ok=floor <= GUESS_LIMIT, detail=detail)


def _capacity(family: ModuleFamily, drawn: dict[str, list[Instance]]) -> Iterator[Finding]:
    """Distinct questions, estimated from how many of those drawn were the same (birthday problem)."""
    owner: dict[str, str] = {}
    for stratum in family.space.strata:
        found = drawn[stratum.name]
        distinct = len({one.id for one in found})
        pairs = sum(n * (n - 1) // 2 for n in Counter(one.id for one in found).values())
        size = ITEMS * (ITEMS - 1) / 2 / max(pairs, 1)
        about = f"about {size:,.0f}" if pairs else f"more than {size:,.0f}"
        detail = f"{distinct} of {ITEMS} drawn are distinct, {about} with knobs in the middle"
        yield Finding(check=f"{stratum.label}: distinct questions", ok=size >= FEWEST, detail=detail)
        shared = [one for one in found if owner.setdefault(one.id, stratum.name) != stratum.name]
        if shared:
            detail = f"{shared[0].question!r:.80} is in {owner[shared[0].id]!r} too; use separate ranges"
            yield Finding(check=f"{stratum.label}: in this stratum alone", ok=False, detail=detail)


def preset_text(family: ModuleFamily, file: str) -> str:
    """A preset for a generator, with all knobs in the middle of their ranges."""
    assert family.file
    share = round(1 / len(family.space.strata), 4)
    rest = round(1 - share * (len(family.space.strata) - 1), 4)
    lines = []
    for index, stratum in enumerate(family.space.strata):
        values = {SHARE: rest if index == 0 else share, **_middle(stratum)}
        lines.append(
            f"    {stratum.name}: {{{', '.join(f'{name}: {value:g}' for name, value in values.items())}}}"
        )
    return _PRESET.format(name=family.file.stem, file=file, strata="\n".join(lines))


_PRESET = """\
# A run on the questions of {file}: envwright run ./{name}.yaml
name: {name}
# tiny is a policy of a million parameters that was taught another task; name your chat model here.
model: tiny
stages: 2
instances: 64
max_answer_tokens: 32

family:
  name: module
  options: {{file: ./{file}}}

# A knob of whole numbers at 2.5 is 2 for half of the questions, and 3 for the others.
default_config:
  strata:
{strata}

validation:
  instances: 32

engine: {{batch_size: 32, dtype: float32}}

engineer:
  # The policy itself is `checkpoint`; a rule needs no model that writes configs.
  name: frontier

rewards: {{format: 0.1, valid: 1.0, optimal: 0.0, partial: 0.0}}

trl:
  per_device_train_batch_size: 32
  num_generations: 4
  max_completion_length: 24
  learning_rate: 1.0e-4
  beta: 0.0
  mask_truncated_completions: false
  bf16: false
  gradient_checkpointing: false
  save_steps: 10
"""
