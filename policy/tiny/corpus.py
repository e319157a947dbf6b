"""What a base policy is taught: questions of environments with their references, then design questions too.

Batches are numbered, and each follows from the recipe and its number: a bootstrap that was cut off goes on
where it was.
"""

import random
from collections.abc import Iterator
from functools import lru_cache
from itertools import cycle, islice
from typing import Any

from envgen.environment import Environment, Source
from envgen.errors import ShortageError
from envgen.seeds import seed_integer
from policy.tiny.spec import BootstrapRecipe, Lesson

LESSON_BATCHES, DESIGN_BATCHES = 64, 16
"""Batches that are drawn together."""
EVALUATION_SEED = 20_262
READ_BY_TOKENIZER = 4_096
"""Design questions whose words the tokenizer learns."""
Example = tuple[str, str]
"""A question and its answer."""


def batches(
    recipe: BootstrapRecipe, held_out: frozenset[str], designs: list[Example], first: int = 0
) -> Iterator[list[Example]]:
    """Batches `first` to `steps - 1`, without instances of an id in `held_out`; `designs` go in order."""
    together = recipe.design_batch_size * DESIGN_BATCHES

    @lru_cache(maxsize=1)
    def lessons(chunk: int) -> list[list[Example]]:
        return _batched(lesson_examples(recipe, held_out, chunk), recipe.batch_size, recipe, chunk)

    @lru_cache(maxsize=1)
    def questions(chunk: int) -> list[list[Example]]:
        drawn = designs[chunk * together :][:together]
        return _batched(drawn, recipe.design_batch_size, recipe, chunk)

    for number in range(first, recipe.steps):
        before = designs_before(recipe, number)
        if designs_before(recipe, number + 1) > before:
            chunk, place = divmod(before, DESIGN_BATCHES)
            drawn = questions(chunk)
        else:
            chunk, place = divmod(number - before, LESSON_BATCHES)
            drawn = lessons(chunk)
        # Rounded counts may have left a chunk without its last batch.
        yield drawn[place % len(drawn)]


def _batched(examples: list[Example], size: int, recipe: BootstrapRecipe, chunk: int) -> list[list[Example]]:
    """Return the examples in random order, in batches."""
    random.Random(seed_integer(recipe.seed, "batches", chunk)).shuffle(examples)
    return [examples[start : start + size] for start in range(0, len(examples), size)]


def designs_before(recipe: BootstrapRecipe, number: int) -> int:
    """How many of the batches before this one are of design questions."""
    return max(0, -(-(number - round(recipe.designs_from * recipe.steps)) // recipe.designs_every))


def lesson_examples(recipe: BootstrapRecipe, held_out: frozenset[str], chunk: int) -> list[Example]:
    """About LESSON_BATCHES batches of questions with their references, the same for the same chunk."""
    total = sum(lesson.weight for lesson in recipe.lessons)
    examples: list[Example] = []
    for lesson in recipe.lessons:
        task, configs = lesson.task, list(lesson.taught.parts(lesson.task.space))
        count = max(1, round(recipe.batch_size * LESSON_BATCHES * lesson.weight / total / len(configs)))
        for values, config in configs:
            source = Source(recipe.seed, chunk, "-".join(["bootstrap", *map(str, values)]))
            for name, wanted in config.counts(count).items():
                drawn = _available(task, name, config.strata[name].knobs, wanted, source, held_out)
                if wanted and not drawn:
                    short = f"lesson {lesson.name}: no instance of {task.space.label(name)} exists"
                    raise ShortageError(f"{short} beside those held out; change its knobs in taught", [])
                pairs = [(task.prompt(each, lesson.style), task.reference(each)) for each in drawn]
                examples += islice(cycle(pairs), wanted)
    return examples


def _available(task: Environment, *draw: Any) -> list[Any]:
    """Return the instances of a draw; where there are too few, those that exist."""
    try:
        return task.generate(*draw).instances
    except ShortageError as error:
        return error.instances


def evaluation_instances(lesson: Lesson, count: int) -> list[Any]:
    """Return the instances to evaluate on: about `count` of each stratum, or as many as exist."""
    task, instances = lesson.task, []
    configs = [config for _, config in lesson.taught.parts(task.space)]
    for name in configs[0].strata:
        for index, config in enumerate(configs):
            source = Source(EVALUATION_SEED, purpose=f"bootstrap-evaluation-{index}")
            part = -(-count // len(configs))
            instances += _available(task, name, config.strata[name].knobs, part, source, frozenset())
    return instances


def design_chunks(recipe: BootstrapRecipe) -> int:
    """Chunks of DESIGN_BATCHES batches of design questions that a bootstrap takes."""
    return -(-designs_before(recipe, recipe.steps) // DESIGN_BATCHES)
