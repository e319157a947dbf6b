"""A few failures of a policy, chosen to differ, each with a picture where the family draws one."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from envgen.family import Space, TaskFamily
from policy.rollouts import Rollout

SHOWN_CHARACTERS = 2_000
"""Characters shown of an answer, from its end: that is where what it says at last is."""
_LONGEST_ID, _SHORT_ID = 16, 8


@dataclass(frozen=True)
class Replay:
    """A failed rollout, and what shows its instance."""

    rollout: Rollout
    picture: Markup | None
    prompt: str
    """The question, in place of a picture; empty where there is one."""
    stratum: str
    """Label of its stratum."""
    answer: str
    """The end of the completion."""
    omitted: int
    """Characters before that end."""

    @property
    def name(self) -> str:
        """The identity of the instance, or its first characters."""
        name = self.rollout.instance.id
        return name if len(name) <= _LONGEST_ID else name[:_SHORT_ID]


def replays(task: TaskFamily, style: str, rollouts: Sequence[Rollout], count: int) -> list[Replay]:
    """At most `count` failed rollouts, by category and stratum; `style` is how questions are worded."""
    return [_replay(task, style, rollout) for rollout in choose(task.space, rollouts, count)]


def choose(space: Space, rollouts: Sequence[Rollout], count: int) -> list[Rollout]:
    """At most `count` failures, by category and stratum.

    Each pick has the category, then the stratum, that was picked least so far; the instance id breaks ties.
    """
    left = sorted((r for r in rollouts if r.verdict.category), key=lambda r: r.instance.id)
    categories, strata, picked = Counter(), Counter(), []
    while left and len(picked) < count:
        best = min(left, key=lambda r: (categories[r.verdict.category], strata[r.instance.stratum]))
        left.remove(best)
        picked.append(best)
        categories[best.verdict.category] += 1
        strata[best.instance.stratum] += 1
    return sorted(picked, key=lambda r: (*_place(space, r), r.instance.id))


def _place(space: Space, rollout: Rollout) -> tuple[int, int]:
    """Where category and stratum stand in the space; what it does not have is last."""
    categories, strata = list(space.categories), list(space.names)
    found = ((categories, rollout.verdict.category), (strata, rollout.instance.stratum))
    category, stratum = (names.index(name) if name in names else len(names) for names, name in found)
    return category, stratum


def _replay(task: TaskFamily, style: str, rollout: Rollout) -> Replay:
    drawn = task.picture(rollout.instance, rollout.completion, rollout.verdict)
    return Replay(
        rollout=rollout,
        picture=None if drawn is None else Markup(drawn),
        prompt=task.prompt(rollout.instance, style) if drawn is None else "",
        stratum=task.space.label(rollout.instance.stratum),
        answer=rollout.completion[-SHOWN_CHARACTERS:],
        omitted=max(0, len(rollout.completion) - SHOWN_CHARACTERS),
    )
