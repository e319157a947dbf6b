"""What the base policy is taught: boards with optimal plans, few with a wait, then design questions too.

Batches are numbered, and each follows from the recipe and its number: a bootstrap that was cut off goes on
where it was.
"""

import random
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path

import pyarrow as pa

from envgen.dataset import read_table, write_table
from envgen.mapf.config import BoardsConfig, SizeConfig
from envgen.mapf.problem import MIN_SIZE, Instance
from envgen.mapf.prompts import PromptStyle, answer, prompt
from envgen.mapf.sampler import sample
from envgen.seeds import seed_integer
from policy.tiny.spec import Boards, BootstrapRecipe

BOARD_BATCHES, DESIGN_BATCHES = 64, 16
"""Batches that are drawn together, so that those of a batch can be of similar length."""
READ_BY_TOKENIZER = 4_096
"""Design questions whose words the tokenizer learns."""
Example = tuple[str, str]
"""A question and its answer."""
_EXAMPLES = pa.schema(
    [pa.field("prompt", pa.string(), nullable=False), pa.field("completion", pa.string(), nullable=False)]
)


def batches(
    recipe: BootstrapRecipe, held_out: frozenset[str], designs: list[Example], first: int = 0
) -> Iterator[list[Example]]:
    """Batches `first` to `steps - 1`, without boards of an identity in `held_out`; `designs` go in order."""
    together = recipe.design_batch_size * DESIGN_BATCHES

    @lru_cache(maxsize=1)
    def boards(chunk: int) -> list[list[Example]]:
        return _batched(board_examples(recipe, held_out, chunk), recipe.batch_size, recipe.seed, chunk)

    @lru_cache(maxsize=1)
    def questions(chunk: int) -> list[list[Example]]:
        drawn = designs[chunk * together :][:together]
        return _batched(drawn, recipe.design_batch_size, recipe.seed, chunk)

    for number in range(first, recipe.steps):
        before = designs_before(recipe, number)
        if designs_before(recipe, number + 1) > before:
            chunk, place = divmod(before, DESIGN_BATCHES)
            drawn = questions(chunk)
        else:
            chunk, place = divmod(number - before, BOARD_BATCHES)
            drawn = boards(chunk)
        # Rounded counts may have left a chunk without its last batch.
        yield drawn[place % len(drawn)]


def _batched(examples: list[Example], size: int, seed: int, chunk: int) -> list[list[Example]]:
    """Examples in batches of similar length, which come in any order."""
    shuffle = random.Random(seed_integer(seed, "batches", chunk)).shuffle
    shuffle(examples)
    examples.sort(key=lambda example: len(example[0]) + len(example[1]))
    found = [examples[start : start + size] for start in range(0, len(examples), size)]
    shuffle(found)
    return found


def designs_before(recipe: BootstrapRecipe, number: int) -> int:
    """How many of the batches before this one are of design questions."""
    return max(0, -(-(number - round(recipe.designs_from * recipe.steps)) // recipe.designs_every))


def board_examples(recipe: BootstrapRecipe, held_out: frozenset[str], chunk: int) -> list[Example]:
    """About BOARD_BATCHES batches of boards with their optimal plans, the same for the same chunk."""
    total = sum(part.weight for part in recipe.boards)
    instances: list[Instance] = []
    for part in recipe.boards:
        count = round(recipe.batch_size * BOARD_BATCHES * part.weight / total / len(part.hole_ratios))
        for hole_ratio in part.hole_ratios:
            drawn = partial(
                sample, seed=recipe.seed, stage=chunk, purpose=f"bootstrap-{hole_ratio}", held_out=held_out
            )
            instances += drawn(_config(part, hole_ratio), max(1, count), agents=part.agents)[0]
    return [(prompt(i.problem, PromptStyle.COMPACT), answer(i.solution.plan)) for i in instances]


def design_chunks(recipe: BootstrapRecipe) -> int:
    """Chunks of DESIGN_BATCHES batches of design questions that a bootstrap takes."""
    return -(-designs_before(recipe, recipe.steps) // DESIGN_BATCHES)


def write_examples(path: Path, examples: list[Example]) -> None:
    """Write examples as Parquet."""
    rows = [{"prompt": question, "completion": text} for question, text in examples]
    write_table(path, pa.Table.from_pylist(rows, schema=_EXAMPLES))


def read_examples(path: Path) -> list[Example]:
    """Examples of a file; DataError if it is missing or of another schema."""
    return [(row["prompt"], row["completion"]) for row in read_table(path, _EXAMPLES).to_pylist()]


def _config(part: Boards, hole_ratio: float) -> BoardsConfig:
    total = sum(part.map_sizes.values())
    return BoardsConfig(
        sizes={
            size: SizeConfig(
                data_ratio=share / total,
                hole_ratio=hole_ratio,
                wait_ratio=0 if size == MIN_SIZE else part.wait_ratio,
            )
            for size, share in part.map_sizes.items()
        }
    )
