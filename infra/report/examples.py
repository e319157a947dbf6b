"""Which answers the report shows, chosen to differ."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from envgen.space import Space
from policy.rollouts import Rollout

T = TypeVar("T")
_CHANGES = {
    "Solved since": (False, True, 4),
    "No longer solved": (True, False, 2),
    "Still failed": (False, False, 2),
    "Solved before and after": (True, True, 2),
}
"""Name -> whether valid before, whether valid after, number of examples."""


class Changed(NamedTuple):
    """Instances whose answers changed in the same way."""

    name: str
    total: int
    pairs: list[tuple[Rollout, Rollout]]
    """Answers of the base policy and of the later one to the same instance."""


def before_and_after(space: Space, before: Sequence[Rollout], after: Sequence[Rollout]) -> list[Changed]:
    """Return answers of two policies to the same instances, some of each kind of change."""
    later, changes = {rollout.instance.id: rollout for rollout in after}, []
    pairs = [(rollout, later[rollout.instance.id]) for rollout in before if rollout.instance.id in later]
    for name, (was, became, count) in _CHANGES.items():
        alike = [pair for pair in pairs if (pair[0].verdict.valid, pair[1].verdict.valid) == (was, became)]
        if alike:
            changes.append(Changed(name, len(alike), _chosen(space, alike, count, lambda pair: pair[1])))
    return changes


def choose(space: Space, rollouts: Sequence[Rollout], count: int) -> list[Rollout]:
    """Return at most `count` failures."""
    failed = [rollout for rollout in rollouts if rollout.verdict.category]
    return _chosen(space, failed, count, lambda rollout: rollout)


def _chosen(space: Space, items: list[T], count: int, rollout_of: Callable[[T], Rollout]) -> list[T]:
    """Return at most `count` items by category and stratum.

    Each has the category, then the stratum, that was chosen least so far; the instance id breaks ties.
    """
    orders = {"category": space.categories, "stratum": space.names}

    def features(item: T) -> list[tuple[str, str | None]]:
        rollout = rollout_of(item)
        return [("category", rollout.verdict.category), ("stratum", rollout.instance.stratum)]

    def place(item: T) -> list[int]:
        names = [(orders[kind], name) for kind, name in features(item)]
        return [order.index(name) if name in order else len(order) for order, name in names]

    left, chosen, seen = sorted(items, key=lambda item: rollout_of(item).instance.id), [], Counter()
    while left and len(chosen) < count:
        chosen.append(min(left, key=lambda item: [seen[feature] for feature in features(item)]))
        left.remove(chosen[-1])
        seen.update(features(chosen[-1]))
    return sorted(chosen, key=lambda item: (place(item), rollout_of(item).instance.id))
