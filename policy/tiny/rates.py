"""How many boards of each kind a base policy solves."""

from collections.abc import Iterable
from pathlib import Path

from envgen.breakdown import Rate, wilson
from envgen.frozen import Frozen
from envgen.mapf.config import BoardsConfig, SizeConfig
from envgen.mapf.problem import Instance
from envgen.mapf.sampler import sample
from policy.rollouts import Rollout

LONGEST_ANSWER = 128
"""Tokens."""
EVALUATED = ((2, 3), (2, 4), (2, 5), (2, 6), (2, 8), (2, 10), (3, 4), (3, 5), (3, 8), (4, 6), (5, 6))
"""(agents, map size) of the boards that checkpoints are evaluated on."""
HOLE_RATIOS = (0.2, 0.3, 0.4)
SEED = 20_262


class Rates(Frozen):
    """Valid rates of greedy answers by stratum, such as `2 agents, 4x4, no wait`."""

    valid: dict[str, Rate]

    def lines(self) -> list[str]:
        """The rates in percent, a line for each number of agents: `2 agents: 3x3 84, 4x4 88 (wait 5)`."""
        found: dict[str, list[str]] = {}
        for name, rate in self.valid.items():
            agents, size, wait = name.split(", ")
            sizes, percent = found.setdefault(agents, []), f"{100 * rate.value:.0f}"
            if wait == "wait" and sizes and sizes[-1].startswith(f"{size} "):
                sizes[-1] += f" (wait {percent})"
            else:
                sizes.append(f"{size} {percent}" if wait == "no wait" else f"{size} wait {percent}")
        return [f"{agents}: {', '.join(sizes)}" for agents, sizes in found.items()]


def rates_path(work: Path, step: int) -> Path:
    """Where the rates of a checkpoint are kept, beside it."""
    return work / f"rates-{step:06d}.json"


def evaluation_boards(each: int) -> list[Instance]:
    """The boards that checkpoints are evaluated on, half of which need a wait.

    There are `each` of every number of agents, map size and hole ratio. 3x3 boards need no wait.
    """
    instances = []
    for agents, size in EVALUATED:
        for hole_ratio in HOLE_RATIOS:
            knobs = SizeConfig(data_ratio=1, hole_ratio=hole_ratio, wait_ratio=0 if size == 3 else 0.5)
            config, purpose = BoardsConfig(sizes={size: knobs}), f"bootstrap-evaluation-{hole_ratio}"
            instances += sample(config, each, agents=agents, seed=SEED, purpose=purpose)[0]
    return instances


def rates_of(rollouts: Iterable[Rollout]) -> Rates:
    """The valid rate of each stratum."""
    strata: dict[str, list[bool]] = {}
    for rollout in rollouts:
        board = rollout.instance
        assert isinstance(board, Instance)
        problem, wait = board.problem, "wait" if board.solution.wait_required else "no wait"
        name = f"{problem.num_agents} agents, {problem.size}x{problem.size}, {wait}"
        strata.setdefault(name, []).append(rollout.verdict.valid)
    return Rates(valid={name: wilson(sum(valid), len(valid)) for name, valid in strata.items()})
