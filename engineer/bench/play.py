"""Let an engineer design the stages of a world, and compare its gain with a look-ahead's."""

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from engineer.bench.results import Played
from engineer.bench.worlds import (
    KINDS,
    TRICK_RATIO,
    UNREADABLE,
    WRONG,
    World,
    default_config,
    draw_world,
    space_of,
)
from engineer.context import DesignContext, StageRecord
from engineer.proposal import Proposal
from engineer.propose import design
from engineer.spec import EngineerSpec
from envgen.breakdown import Breakdown, Counts, Labelled
from envgen.config import EnvConfig
from envgen.seeds import generator
from envgen.space import Space
from policy.chat.contract import ChatModel
from policy.learner import GROUP, READABLE

STAGES = 6
"""Stages of a world; the first has the default config, the others are designed."""
INSTANCES = 384
"""Training instances of a stage."""
CANDIDATES = 60
"""Random shares that the look-ahead tries, besides those that favour one stratum or two."""


def play(
    trap: str,
    draw: int,
    spec: EngineerSpec,
    model: ChatModel | None = None,
    keep: Callable[[Proposal], None] = lambda proposal: None,
) -> Played:
    """Return how an engineer fares in a draw of a trap; `keep` gets each of its proposals.

    Draws of training and validation depend on draw and stage alone, so that two engineers differ only by
    their configs.
    """
    world = draw_world(trap, draw)
    space, skills = space_of(world), world.skills
    config, state, rationale = default_config(space), {}, ""
    records, proposals = list[StageRecord](), list[Proposal]()
    for stage in range(STAGES):
        skills = _trained(world, skills, config, generator(draw, stage, trap, "training"))
        if stage == STAGES - 1:
            break
        breakdown = _validated(world, skills, space, generator(draw, stage, trap, "validation"))
        records.append(StageRecord(stage=stage, config=config, breakdown=breakdown))
        context = DesignContext(
            space=space,
            current=records[-1],
            history=tuple(records[:-1]),
            state=state,
            previous_rationale=rationale,
            stages=STAGES,
            instances=INSTANCES,
            epochs=1,
            training={"algorithm": "GRPO", "group_size": GROUP, "reward": {"valid": 1.0}},
        )
        proposal = design(spec, context, draw, model, lambda config: (config, []))
        keep(proposal)
        proposals.append(proposal)
        config, state, rationale = proposal.config, proposal.state, proposal.rationale
    return Played(
        trap=trap,
        score=float(world.score(skills)),
        used=sum(proposal.fallback is None for proposal in proposals),
        asked=len(proposals),
        tokens=sum((each.prompt_tokens or 0) + (each.completion_tokens or 0) for each in proposals),
    )


def look_ahead(trap: str, draw: int) -> Played:
    """Return the result of a greedy engineer that knows the world.

    Before each stage it tries candidate configs on the learner, without noise, each kept until the end, and
    takes the best one.
    """
    world, rng = draw_world(trap, draw), generator(draw, trap, "look-ahead")
    shares, tricks = _candidates(len(world.skills), rng)
    skills, chosen = world.skills, 0
    for stage in range(STAGES):
        if stage:
            ends = np.broadcast_to(skills, (len(shares), *skills.shape))
            for _ in range(STAGES - stage):
                ends = world.stage(ends, shares, tricks, None)
            chosen = int(np.argmax(world.score(ends)))
        training = generator(draw, stage, trap, "training")
        skills = world.stage(skills, shares[chosen], tricks[chosen], training)
    return Played(trap=trap, score=float(world.score(skills)))


def _candidates(strata: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return shares and parts of tricks, shape (candidates, strata); the first is the default config."""
    equal, single = np.full(strata, 1 / strata), np.eye(strata)
    pairs = [(single[a] + single[b]) / 2 for a in range(strata) for b in range(a)]
    favoured = [part * kind + (1 - part) * equal for kind in (*single, *pairs) for part in (0.3, 0.6, 0.9)]
    shares = np.array([equal, *favoured, *rng.dirichlet(np.ones(strata), CANDIDATES)])
    tricks = np.repeat([0.5, 0.0, 1.0], len(shares))
    return np.tile(shares, (3, 1)), np.repeat(tricks[:, None], strata, axis=1)


def _trained(world: World, skills: np.ndarray, config: EnvConfig, rng: np.random.Generator) -> np.ndarray:
    """Return the skills after a stage on a config, whose shares are whole instances."""
    shares = np.array(list(config.counts(INSTANCES).values())) / INSTANCES
    tricks = np.array([part[TRICK_RATIO] for part in config.strata.values()])
    return world.stage(skills, shares, tricks, rng)


def _validated(world: World, skills: np.ndarray, space: Space, rng: np.random.Generator) -> Breakdown:
    """Return the breakdown of an evaluation; the first half of the instances of a level has a trick."""
    drawn = rng.random((2, len(skills), world.answers))
    with_trick = np.arange(world.answers) < world.answers // 2
    right = drawn[0] < world.learner.right(skills, KINDS)[:, with_trick.astype(int)]
    readable = drawn[1] < expit(skills[:, READABLE, None])
    strata = {}
    for name, solved, read in zip(space.names, right, readable, strict=True):
        valid = solved & read
        tricks = Labelled(n=int(with_trick.sum()), valid=int(valid[with_trick].sum()))
        failures = {UNREADABLE: int((~read).sum()), WRONG: int((read & ~solved).sum())}
        fields = {"n": world.answers, "valid": int(valid.sum()), "optimal": 0, "failures": failures}
        strata[name] = Counts(**fields, labels={"trick": tricks})
    return Breakdown(strata=strata)
