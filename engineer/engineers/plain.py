"""The designers that learn nothing: `random`, any legal config, and `fixed`, the config that is there."""

import numpy as np

from engineer.answer import project
from engineer.context import DesignContext
from engineer.contract import Brief, Designer, DesignerOptions
from engineer.proposal import Proposal
from envgen.config import EnvConfig
from envgen.seeds import generator


def random_config(context: DesignContext, rng: np.random.Generator) -> EnvConfig:
    """A config uniform over shares (flat Dirichlet), hole and wait ratios of the space."""
    space = context.space
    shares = rng.dirichlet(np.ones(len(space.map_sizes)))
    raw = {
        str(size): {
            "data_ratio": float(share),
            "hole_ratio": float(rng.uniform(space.min_hole_ratio, space.max_hole_ratio)),
            "wait_ratio": float(rng.uniform()),
        }
        for size, share in zip(space.map_sizes, shares, strict=True)
    }
    return project({"sizes": raw}, space, context.current.config)[0]


def _propose_random(context: DesignContext, options: DesignerOptions, brief: Brief) -> Proposal:
    config = random_config(context, generator(brief.seed, context.current.stage, "random-designer", brief.candidate))
    return brief.exactly(context, config, "Drawn at random from the config space.")


def _propose_fixed(context: DesignContext, options: DesignerOptions, brief: Brief) -> Proposal:
    return brief.exactly(context, context.current.config, "The config is fixed.")


RANDOM = Designer(_propose_random)
FIXED = Designer(_propose_fixed)
