"""`make capacity`: what every class of boards holds, written to docs/capacity.md; small classes are counted
into envgen/mapf/capacities.json first.

For each map size, number of agents and hole ratio: how many boards are solvable and how many of those need a
wait (over 2,048 draws), how many distinct boards of each kind there are (enumerated, or at least 200 found),
and for which wait ratios 200 distinct instances with exactly that ratio can be drawn, how fast; where they
cannot, what the sampler says."""

import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.enumerated_boards import board_count, enumerate_capacity

from envgen.errors import SamplingError
from envgen.mapf.capacity import ENUMERABLE, TABLE, enumerated_capacity
from envgen.mapf.config import BoardsConfig, SizeConfig
from envgen.mapf.problem import MAX_AGENTS, MAX_SIZE, MIN_AGENTS, MIN_SIZE
from envgen.mapf.quota import Quota, quotas
from envgen.mapf.sampler import draw_boards, sample

WANTED, DRAWS = 200, 2048
WAIT_RATIOS = (0.0, 0.25, 0.5, 0.75, 1.0)
HOLE_RATIOS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
TARGET = Path(__file__).parents[2] / "docs" / "capacity.md"

HEADER = f"""# What every class of boards holds

Written by `make capacity`. A class is a map size, a number of agents and a number of holes (the hole ratio times the cells,
rounded down). *Solvable* is the share of uniformly drawn boards that have a plan, *need a wait* the share of those whose
every optimal plan waits, both over {DRAWS:,} draws. *Distinct* counts boards up to the 8 symmetries and the agents'
order: enumerated where the class is small, "many" where it has more than {ENUMERABLE:,} boards. The last columns say for
each share of boards that need a wait how many instances a second one core drew, {WANTED} distinct ones with exactly that
share, both cores of a small machine at work; ✗ where the class refuses, with its reason below the table.
"""


def describe(size: int, agents: int, hole_ratio: float) -> tuple[str, list[str]]:
    """The table row of a class, and what the sampler says of the wait ratios that it cannot deliver."""
    refusals = []
    config = BoardsConfig(sizes={size: SizeConfig(data_ratio=1, hole_ratio=hole_ratio, wait_ratio=0)})
    try:
        holes = quotas(config, 1, agents)[0].holes
    except SamplingError as error:
        return f"| {size} | {agents} | {hole_ratio:g} | | | | | | " + " | ".join(
            "✗" * len(WAIT_RATIOS)
        ) + " |", [str(error)]
    quota = Quota(size=size, agents=agents, hole_ratio=hole_ratio, without_wait=0, with_wait=0)
    answers = draw_boards(quota, 0, 0, "capacity", 0, DRAWS).answers
    solvable = int((answers.status > 0).sum())
    waiting = int(((answers.status > 0) & (answers.waits > 0)).sum())
    known = enumerated_capacity(size, agents, holes)
    marks = []
    for wait_ratio in WAIT_RATIOS:
        wanted = BoardsConfig(
            sizes={size: SizeConfig(data_ratio=1, hole_ratio=hole_ratio, wait_ratio=wait_ratio)}
        )
        began = time.perf_counter()
        try:
            drawn, _ = sample(wanted, WANTED, agents=agents, seed=0, purpose="capacity")
            assert sum(i.solution.wait_required for i in drawn) == round(wait_ratio * WANTED)
            assert len({i.problem.id for i in drawn}) == WANTED
            marks.append(f"{WANTED / (time.perf_counter() - began):,.0f}")
        except SamplingError as error:
            marks.append("✗")
            refusals.append(f"wait ratio {wait_ratio:g}: {error}")
    counts = (f"{known.without_wait:,}", f"{known.with_wait:,}") if known else ("many", "many")
    row = (
        f"| {size} | {agents} | {hole_ratio:g} | {holes} | {solvable / len(answers.status):.1%} |"
        f" {waiting / max(1, solvable):.1%} | {counts[0]} | {counts[1]} | {' | '.join(marks)} |"
    )
    return row, refusals


def count_small_classes(pool: ProcessPoolExecutor) -> None:
    """Write the counts of all classes that can be enumerated."""
    classes = [
        (s, a, h)
        for s in range(MIN_SIZE, MAX_SIZE + 1)
        for a in range(MIN_AGENTS, MAX_AGENTS + 1)
        for h in range(s * s // 2 + 1)
    ]
    small = [c for c in classes if 0 < board_count(*c) <= ENUMERABLE]
    counts = pool.map(enumerate_capacity, *zip(*small, strict=True))
    TABLE.write_text(
        json.dumps(
            {" ".join(map(str, c)): list(held) for c, held in zip(small, counts, strict=True)}, indent=0
        )
        + "\n",
        encoding="utf-8",
    )


def main() -> None:
    """Measure all classes in parallel and write the page."""
    classes = [
        (s, a, h)
        for s in range(MIN_SIZE, MAX_SIZE + 1)
        for a in range(MIN_AGENTS, MAX_AGENTS + 1)
        for h in HOLE_RATIOS
    ]
    started = time.monotonic()
    with ProcessPoolExecutor() as pool:
        count_small_classes(pool)
    with ProcessPoolExecutor() as pool:
        results = []
        for index, result in enumerate(pool.map(describe, *zip(*classes, strict=True)), start=1):
            results.append(result)
            print(
                f"\r{index} of {len(classes)} classes, {time.monotonic() - started:.0f} s",
                end="",
                file=sys.stderr,
                flush=True,
            )
    lines = [
        HEADER,
        (
            "| size | agents | hole ratio | holes | solvable | need a wait | distinct, no wait | distinct,"
            " wait | 0 | 0.25 | 0.5 | 0.75 | 1 |"
        ),
    ]
    lines.append("|" + "---|" * 13)
    lines += [row for row, _ in results]
    lines.append("\n## What the sampler says where it refuses\n")
    for (size, agents, hole_ratio), (_, refusals) in zip(classes, results, strict=True):
        lines += [
            f"- {size}x{size}, {agents} agents, hole ratio {hole_ratio:g}, {refusal}" for refusal in refusals
        ]
    TARGET.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"\nwrote {TARGET}", file=sys.stderr)


if __name__ == "__main__":
    main()
