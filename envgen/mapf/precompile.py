"""Compile the solver for this machine, as first use would: `python -m envgen.mapf.precompile`."""

from envgen.mapf.config import BoardsConfig, SizeConfig
from envgen.mapf.sampler import sample
from envgen.mapf.solver.solve import solve_makespan


def precompile() -> None:
    """Draw and solve a few boards with and without waits; nothing is left to compile afterwards."""
    config = BoardsConfig(sizes={4: SizeConfig(data_ratio=1, hole_ratio=0.3, wait_ratio=0.5)})
    for agents in (2, 4):
        instances, _ = sample(config, 8, agents=agents, seed=0)
    solve_makespan(instances[0].problem)


if __name__ == "__main__":
    precompile()
