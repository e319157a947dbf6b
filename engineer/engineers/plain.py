"""The engineers that learn nothing: `random`, any legal config, and `fixed`, the config that is there."""

import numpy as np

from engineer.answer import project
from engineer.context import DesignContext
from engineer.contract import Brief, Engineer, EngineerOptions
from engineer.proposal import Proposal
from envgen.config import SHARE, EnvConfig
from envgen.seeds import generator


def random_config(context: DesignContext, rng: np.random.Generator) -> EnvConfig:
    """A config uniform over shares (flat Dirichlet) and knobs of the space."""
    space = context.space
    shares = rng.dirichlet(np.ones(len(space.strata))).tolist()
    raw = {
        stratum.name: {
            SHARE: share,
            **{knob.name: float(rng.uniform(knob.low, knob.high)) for knob in stratum.knobs},
        }
        for stratum, share in zip(space.strata, shares, strict=True)
    }
    return project({space.key: raw}, space, context.current.config)[0]


def _propose_random(context: DesignContext, options: EngineerOptions, brief: Brief) -> Proposal:
    """Any legal config, drawn at random."""
    rng = generator(brief.seed, context.current.stage, "random-engineer")
    return brief.exactly(context, random_config(context, rng), "Drawn at random from the config space.")


def _propose_fixed(context: DesignContext, options: EngineerOptions, brief: Brief) -> Proposal:
    """The config that is there."""
    return brief.exactly(context, context.current.config, "The config is fixed.")


RANDOM = Engineer(_propose_random)
FIXED = Engineer(_propose_fixed)
