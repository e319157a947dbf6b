"""What the tiny policies are taught about boards before any reinforcement learning: optimal plans, mostly where nobody has to wait."""

from itertools import product
from pathlib import Path

import pyarrow as pa

from envgen.config import EnvConfig, SizeConfig
from envgen.dataset import read_table, write_table
from envgen.problem import MIN_SIZE, Instance
from envgen.prompts import PromptStyle, answer, prompt
from envgen.sampler import sample
from envgen.solver import solve_many
from policy.tiny.spec import BootstrapRecipe

EXAMPLES = pa.schema([pa.field("prompt", pa.string(), nullable=False), pa.field("completion", pa.string(), nullable=False)])


DRAWN_PER_KEPT = 3
LARGEST_POOL_3X3 = 1_000
"""3x3 boards are few: with one hole about 1,300 distinct ones need no wait, and 63 need one; none of those is drawn."""


def board_examples(recipe: BootstrapRecipe, held_out: frozenset[str], workers: int) -> list[tuple[str, str]]:
    """Boards with their optimal plans; boards in `held_out` are left out.

    Of every map size and hole ratio more boards are drawn than kept, and those in which the agents get in each other's
    way (the optimum exceeds the sum of distances) are preferred up to half: there coordination can be learned.
    """
    kept: list[Instance] = []
    each = recipe.boards // (len(recipe.agents) * len(recipe.map_sizes) * len(recipe.hole_ratios))
    for agents, size, hole_ratio in product(recipe.agents, recipe.map_sizes, recipe.hole_ratios):
        smallest = size == MIN_SIZE
        pool = min(DRAWN_PER_KEPT * each, LARGEST_POOL_3X3) if smallest else DRAWN_PER_KEPT * each
        config = EnvConfig(sizes={size: SizeConfig(data_ratio=1, hole_ratio=hole_ratio, wait_ratio=0 if smallest else recipe.wait_ratio)})
        drawn, _ = sample(config, pool, agents=agents, seed=recipe.seed, purpose=f"bootstrap-{hole_ratio}", held_out=held_out, workers=workers)
        excesses = [excess(i) for i in drawn]
        meeting = [i for i, more in zip(drawn, excesses, strict=True) if more > 0][: each // 2]
        apart = [i for i, more in zip(drawn, excesses, strict=True) if more == 0]
        kept += meeting + apart[: each - len(meeting)]
    return [(prompt(i.problem, PromptStyle.COMPACT), answer(i.solution.plan)) for i in kept]


def excess(instance: Instance) -> int:
    """Steps by which the optimum exceeds the sum of the agents' distances."""
    alone = solve_many([instance.problem.model_copy(update={"agents": (agent,)}) for agent in instance.problem.agents])
    return instance.solution.sum_of_costs - sum(solution.sum_of_costs for solution in alone if solution)


def write_examples(path: Path, examples: list[tuple[str, str]]) -> None:
    """Write (question, answer) pairs as Parquet."""
    write_table(path, pa.Table.from_pylist([{"prompt": question, "completion": text} for question, text in examples], schema=EXAMPLES))


def read_examples(path: Path) -> list[tuple[str, str]]:
    """(question, answer) pairs of a file; DataError if it is missing or of another schema."""
    return [(row["prompt"], row["completion"]) for row in read_table(path, EXAMPLES).to_pylist()]
