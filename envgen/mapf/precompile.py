"""Compile the solver for this machine, as first use would: `python -m envgen.mapf.precompile`."""

from envgen.environment import Source
from envgen.mapf.sampler import draw_size


def precompile() -> None:
    """Draw and solve a few boards with and without waits; nothing is left to compile afterwards."""
    knobs = {"hole_ratio": 0.3, "wait_ratio": 0.5}
    for agents in (2, 4):
        draw_size(4, knobs, 8, agents, Source(0), frozenset())


if __name__ == "__main__":
    precompile()
