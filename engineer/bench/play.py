"""Let engineers design the stages of worlds, and score their gains as shares of what a look-ahead gains."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit

from engineer.bench.worlds import NOTHING, TRICK_RATIO, default_config, draw_world, space_of
from engineer.context import DesignContext, StageRecord
from engineer.contract import Proposal
from engineer.propose import design
from engineer.spec import EngineerSpec
from envgen.estimates import ALPHA, Difference
from envgen.frozen import Frozen
from envgen.seeds import generator
from policy.chat.contract import ChatModel
from policy.learner import GROUP

STAGES = 6
"""Stages of a world; the first has the default config, the others are designed."""
INSTANCES = 384
"""Training instances of a stage."""


class Played(Frozen):
    """An engineer in one draw of a trap: designs used and asked for, tokens of questions, of answers."""

    trap: str
    score: float
    """Mean valid rate over strata after the last stage, 0 to 1."""
    used: int = 0
    asked: int = 0
    tokens: tuple[int, int] = (0, 0)


class EngineerScore(Frozen):
    """An engineer in all worlds; intervals are over draws."""

    engineer: str
    overall: Difference
    """Mean of `shares` over traps; negative if `fixed` is better."""
    shares: dict[str, Difference]
    """Trap -> gain over `fixed` as a share of the gain of the look-ahead; 1 is as good."""
    gains: dict[str, Difference]
    """Trap, also the one with nothing to gain -> score minus the score of `fixed`."""
    used: int
    asked: int
    tokens: tuple[int, int]
    """Of questions, of answers."""


class BenchResults(Frozen):
    """All engineers in the same worlds, the best first."""

    draws: int
    stages: int
    price: tuple[float, float] = (0.0, 0.0)
    """Dollars for a million tokens of questions, of answers."""
    engineers: tuple[EngineerScore, ...]


def play(
    trap: str,
    draw: int,
    spec: EngineerSpec,
    model: ChatModel | None = None,
    keep: Callable[[Proposal], None] = lambda proposal: None,
) -> Played:
    """Return how an engineer fares in a draw of a trap; `keep` gets each of its proposals. Training and
    validation depend on draw and stage alone, so that two engineers differ only by their configs."""
    world = draw_world(trap, draw)
    space, skills = space_of(world), world.skills
    records, proposals = list[StageRecord](), [Proposal(config=default_config(space))]
    for stage in range(STAGES):
        config = proposals[-1].config
        shares = np.array(list(config.counts(INSTANCES).values())) / INSTANCES  # whole instances
        tricks = np.array([part[TRICK_RATIO] for part in config.strata.values()])
        skills = world.stage(skills, shares, tricks, generator(draw, stage, trap, "training"))
        if stage == STAGES - 1:
            break
        breakdown = world.breakdown(skills, generator(draw, stage, trap, "validation"))
        records.append(StageRecord(stage=stage, config=config, breakdown=breakdown))
        context = DesignContext(
            space=space,
            current=records[-1],
            history=tuple(records[:-1]),
            state=proposals[-1].state,
            previous_rationale=proposals[-1].rationale,
            stages=STAGES,
            instances=INSTANCES,
            epochs=1,
            training={"algorithm": "GRPO", "group_size": GROUP, "reward": {"valid": 1.0}},
        )
        proposals.append(design(spec, context, draw, model, lambda config: (config, [])))
        keep(proposals[-1])
    del proposals[0]
    spent = [(each.prompt_tokens or 0, each.completion_tokens or 0) for each in proposals]
    return Played(
        trap=trap,
        score=float(world.score(skills)),
        used=sum(proposal.fallback is None for proposal in proposals),
        asked=len(proposals),
        tokens=np.sum(spent, axis=0).tolist(),
    )


def look_ahead(trap: str, draw: int) -> Played:
    """Return the result of a greedy engineer that knows the world: before each stage it tries candidate
    configs on the learner, without noise, each kept until the end, and takes the best one."""
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
    """Return shares and parts of tricks, shape (candidates, strata), the default config first: equal shares,
    shares that favour one stratum or two, and 60 random ones."""
    equal, single = np.full(strata, 1 / strata), np.eye(strata)
    pairs = [(single[a] + single[b]) / 2 for a in range(strata) for b in range(a)]
    favoured = [part * kind + (1 - part) * equal for kind in (*single, *pairs) for part in (0.3, 0.6, 0.9)]
    shares = np.array([equal, *favoured, *rng.dirichlet(np.ones(strata), 60)])
    tricks = np.repeat([0.5, 0.0, 1.0], len(shares))
    return np.tile(shares, (3, 1)), np.repeat(tricks[:, None], strata, axis=1)


def scored(
    name: str, games: Sequence[Played], fixed: Sequence[Played], best: Sequence[Played]
) -> EngineerScore:
    """Return the score of an engineer from its games, of `fixed` and of the look-ahead in the same worlds."""
    shares, gains, errors = dict[str, Difference](), dict[str, Difference](), list[float]()
    for trap in dict.fromkeys(game.trap for game in fixed):
        base, own, most = (
            np.array([game.score for game in played if game.trap == trap]) for played in (fixed, games, best)
        )
        draws, gain, reach = len(base), own - base, most - base
        gains[trap] = _difference(gain.mean(), gain.std(ddof=1) / np.sqrt(draws), draws)
        if trap != NOTHING:
            ratio = gain.mean() / reach.mean()  # of means; its error by linearization
            errors.append((gain - ratio * reach).std(ddof=1) / np.sqrt(draws) / reach.mean())
            shares[trap] = _difference(ratio, errors[-1], draws)
    mean = np.mean([share.value for share in shares.values()])
    overall = _difference(mean, np.linalg.norm(errors) / len(errors), draws)
    fields = ("used", "asked", "tokens")
    spent = {field: np.sum([getattr(game, field) for game in games], axis=0).tolist() for field in fields}
    return EngineerScore(engineer=name, overall=overall, shares=shares, gains=gains, **spent)


def _difference(value: Any, error: Any, draws: int) -> Difference:
    """Return a value with interval and p-value of Student's distribution."""
    reach = stdtrit(draws - 1, 1 - ALPHA / 2) * error
    p = 2 * stdtr(draws - 1, -abs(value) / error) if error else float(value == 0)
    return Difference(value=value, low=value - reach, high=value + reach, p=p)
