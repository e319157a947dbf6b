"""Give hostile answers to all that reads answers, and count what it makes of them.

`make hostile` reads 100,000 and prints the table of docs/faults.md. Good answers are damaged: cut, repeated,
mixed with control characters, other scripts, huge numbers, nested JSON and code, and once in a while blown
up to 10 MB. An answer to a question has to get a verdict of its family, and to be stored with it; a design
answer has to become a legal config or a readable error, and its proposal to be stored. Anything else that is
raised, more than `LIMIT` seconds for one, and a file that code in an answer makes, are failures: exit
code 1. Answer n is the same for the same seed."""

import argparse
import logging
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hostile_texts import hostile

from engineer.answer import AnswerError, answer_text, parse_answer, project
from engineer.context import DesignContext, StageRecord
from engineer.proposal import Proposal
from engineer.propose import design
from engineer.spec import EngineerSpec
from envgen.family import Instance
from infra.config.preset import Preset, load_preset
from infra.runs.data import validation_instances
from policy.chat.contract import Completion, Conversation, Progress, Sampling
from policy.rollouts import Rollout, breakdown_of, read_rollouts, write_rollouts

PRESETS = ("micro", "micro-sums")
LIMIT = 5.0
"""Seconds of CPU time that one answer may take: far more than any needs, far less than a person waits."""
BATCH = 50
TELL = 10
"""Seconds between two lines that say how far it is."""
REFUSED = "refused with a reason"
FAILED = ("raised", "too slow")
CANARY = "canary"
"""A file that nothing makes."""
LONGEST_ERROR = 400
"""Characters; what a person reads at a glance."""


class Kind(NamedTuple):
    """A use of answers."""

    preset: Preset
    good: tuple[str, ...]
    """Answers before they are damaged."""
    instances: tuple[Instance, ...]
    """The questions of the good answers; none of design answers."""
    context: DesignContext


def kinds() -> dict[str, Kind]:
    """Name -> what is answered: the questions and the design question of each preset."""
    found = {}
    for name in PRESETS:
        preset = load_preset(name)
        task, instances = preset.task, tuple(validation_instances(preset))
        good = tuple(task.reference(one) for one in instances)
        verdicts = task.judge(instances, good)
        rollouts = [
            Rollout(instance=one, completion=text, completion_tokens=1, truncated=False, verdict=verdict)
            for one, text, verdict in zip(instances, good, verdicts, strict=True)
        ]
        record = StageRecord(stage=0, config=preset.default_config, breakdown=breakdown_of(task, rollouts))
        context = DesignContext(
            space=preset.space, current=record, history=(), stages=2, instances=preset.instances, epochs=1
        )
        found[f"{name}: answers"] = Kind(preset, good, instances, context)
        reasons = ("More of what fails.", "")
        designs = tuple(answer_text(reason, preset.default_config) for reason in reasons)
        found[f"{name}: designs"] = Kind(preset, designs, (), context)
    return found


class _Answers:
    """A chat model that gives these answers."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = list(texts)

    def complete(
        self, conversations: Sequence[Conversation], sampling: Sampling, progress: Progress | None = None
    ) -> list[Completion]:
        return [
            Completion(text=self.texts.pop(0), prompt_tokens=1, completion_tokens=1, finish_reason="stop")
        ]


def judged(kind: Kind, numbers: Sequence[int], texts: Sequence[str], folder: Path) -> list[str]:
    """The outcome of each answer to a question, after its verdict was stored and read again."""
    task, instances = kind.preset.task, [kind.instances[number % len(kind.instances)] for number in numbers]
    verdicts = task.judge(instances, texts)
    rollouts = [
        Rollout(instance=one, completion=text, completion_tokens=1, truncated=False, verdict=verdict)
        for one, text, verdict in zip(instances, texts, verdicts, strict=True)
    ]
    write_rollouts(folder / "rollouts.parquet", rollouts, kind.preset.prompt_style, kind.preset.family)
    stored = read_rollouts(folder / "rollouts.parquet")
    assert [(one.completion, one.verdict) for one in stored] == list(zip(texts, verdicts, strict=True))
    assert breakdown_of(task, stored).overall.n == len(texts)
    outcomes = []
    for verdict in verdicts:
        assert verdict.valid == (verdict.category is None), verdict
        assert verdict.valid or verdict.category in task.space.categories, verdict
        assert len(verdict.detail) < LONGEST_ERROR, verdict.detail[:1000]
        outcomes.append("valid" if verdict.valid else str(verdict.category))
    return outcomes


def read(kind: Kind, text: str, other: str) -> str:
    """The outcome of a design answer, after its proposal was stored and read again; `other` is the repair."""
    space, current, said = kind.preset.space, kind.context.current.config, "-"
    try:
        config, changes = project(parse_answer(text, space)[1], space, current)
        space.check(config)
        assert len(config.strata) == len(space.strata)
        assert all(0 < len(change) < LONGEST_ERROR for change in changes), changes
        outcome = "legal after changes" if changes else "legal"
    except AnswerError as error:
        outcome, said = REFUSED, str(error)
    assert 0 < len(said) < LONGEST_ERROR, said[:1000]
    answers, spec = _Answers((text, other)), EngineerSpec(name="base")
    proposal = design(spec, kind.context, 0, answers, lambda config: (config, []))
    space.check(proposal.config)
    assert (len(answers.texts) == 0) == (outcome == REFUSED), proposal.fallback
    # The errors of an engineer become such a reason: of this one none is expected.
    assert f"engineer {spec.name!r} failed" not in (proposal.fallback or ""), proposal.fallback
    assert Proposal.model_validate_json(proposal.model_dump_json()).config == proposal.config
    return outcome


def counted(
    kind: Kind, name: str, seed: int, numbers: range, folder: Path
) -> Iterator[tuple[str, float, str]]:
    """Outcome, seconds, and what was raised, of these answers of a kind."""
    texts = []
    for number in numbers:
        rng = random.Random(f"{seed} {name} {number}")
        good = kind.good[number % len(kind.good)]
        texts.append(hostile(good, rng.choice(kind.good), folder / CANARY, rng))

    def outcomes(chosen: range) -> list[str]:
        own = [texts[one - numbers[0]] for one in chosen]
        return judged(kind, chosen, own, folder) if kind.instances else [read(kind, *own, texts[0])]

    for first in range(0, len(numbers), BATCH if kind.instances else 1):
        yield from _timed(outcomes, numbers[first : first + (BATCH if kind.instances else 1)])


def _timed(outcomes: Callable[[range], list[str]], numbers: range) -> Iterator[tuple[str, float, str]]:
    """What comes of answers that are read together; one by one if something is raised."""
    before = time.process_time()
    try:
        found, error = outcomes(numbers), ""
    except Exception:
        if len(numbers) > 1:
            for place in range(len(numbers)):
                yield from _timed(outcomes, numbers[place : place + 1])
            return
        found, error = ["raised"], f"answer {numbers[0]}: {traceback.format_exc()[-1500:]}"
    seconds = time.process_time() - before
    if seconds > LIMIT:
        found, error = ["too slow"] * len(found), f"answers {numbers}: {seconds:.1f} s"
    yield from ((outcome, seconds, error) for outcome in found)


def table(found: Mapping[str, Counter[str]]) -> str:
    """Numbers of answers by kind and outcome, in Markdown."""
    lines = ["| answers to | outcome | number |", "|---|---|---:|"]
    for name, counts in found.items():
        lines += [f"| {name} | {outcome} | {number:,} |" for outcome, number in counts.most_common()]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Print the table and every failure; 1 if there is one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--answers", type=int, default=100_000, help="how many, of all kinds together")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    every, found, slowest = kinds(), {}, 0.0
    began = told = time.monotonic()
    each = options.answers // len(every)
    with tempfile.TemporaryDirectory(prefix="envwright-answers-") as name:
        folder = Path(name)
        for kind in every:
            found[kind] = Counter()
            for first in range(0, each, BATCH):
                numbers = range(first, min(first + BATCH, each))
                for outcome, seconds, error in counted(every[kind], kind, options.seed, numbers, folder):
                    found[kind][outcome] += 1
                    slowest = max(slowest, seconds)
                    if error:
                        print(f"{kind}: {error}", file=sys.stderr, flush=True)
                if time.monotonic() - told > TELL:
                    told, done = time.monotonic(), sum(counts.total() for counts in found.values())
                    left = (told - began) / done * (options.answers - done)
                    print(f"{done:,} of {options.answers:,} answers, {left / 60:.0f} min left", flush=True)
        executed = (folder / CANARY).exists()
    print(f"\n{table(found)}\n\nslowest: {slowest:.2f} s; code was executed: {'yes' if executed else 'no'}")
    return int(executed or any(counts[name] for counts in found.values() for name in FAILED))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    sys.exit(main(sys.argv[1:]))
