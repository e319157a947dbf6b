"""A few failures of a policy, chosen to differ, each as a replay."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from envgen.mapf.parser import parse_plan
from envgen.mapf.render import board_svg, replay_svg
from envgen.mapf.verifier import FailureCategory
from policy.rollouts import Rollout

SHOWN_CHARACTERS = 2_000
"""Characters shown of an answer, from its end: that is where the plan is."""
_ORDER = list(FailureCategory)


@dataclass(frozen=True)
class Replay:
    """A failed rollout with its drawing."""

    rollout: Rollout
    svg: Markup
    answer: str
    """The end of the completion."""
    omitted: int
    """Characters before that end."""


def replays(rollouts: Sequence[Rollout], count: int) -> list[Replay]:
    """At most `count` failed rollouts as replays, by category and map size."""
    return [
        Replay(rollout, _draw(rollout), rollout.completion[-SHOWN_CHARACTERS:], max(0, len(rollout.completion) - SHOWN_CHARACTERS))
        for rollout in choose(rollouts, count)
    ]


def choose(rollouts: Sequence[Rollout], count: int) -> list[Rollout]:
    """At most `count` failures: each pick has the category, then the map size, that was picked least so far; the instance id breaks ties."""
    left = sorted((r for r in rollouts if r.verdict.category), key=lambda r: r.instance.problem.id)
    categories, sizes, picked = Counter(), Counter(), []
    while left and len(picked) < count:
        best = min(left, key=lambda r: (categories[r.verdict.category], sizes[r.instance.problem.size]))
        left.remove(best)
        picked.append(best)
        categories[best.verdict.category] += 1
        sizes[best.instance.problem.size] += 1
    return sorted(picked, key=lambda r: (_ORDER.index(FailureCategory(r.verdict.category)), r.instance.problem.size, r.instance.problem.id))


def _draw(rollout: Rollout) -> Markup:
    problem, verdict = rollout.instance.problem, rollout.verdict
    if verdict.category is FailureCategory.PARSE_ERROR:
        return Markup(board_svg(problem))
    return Markup(replay_svg(problem, parse_plan(rollout.completion, problem.num_agents), verdict))
