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
"""Name -> whether valid before, whether valid after, how many are shown."""


class Changed(NamedTuple):
    """Instances whose answers fared alike before and after."""

    name: str
    total: int
    shown: list[tuple[Rollout, Rollout]]
    """Answers of the base policy and of the later one to the same instance."""


def before_and_after(space: Space, before: Sequence[Rollout], after: Sequence[Rollout]) -> list[Changed]:
    """Answers of two policies to the same instances, some of each kind of change, over the strata; the
    instance id breaks ties."""
    later, found = {one.instance.id: one for one in after}, []
    pairs = [(one, later[one.instance.id]) for one in before if one.instance.id in later]
    for name, (was, became, count) in _CHANGES.items():
        of_kind = [pair for pair in pairs if (pair[0].verdict.valid, pair[1].verdict.valid) == (was, became)]
        of_kind.sort(key=lambda pair: pair[0].instance.id)
        shown = _spread(of_kind, count, lambda pair: pair[0].instance.stratum)
        shown.sort(key=lambda pair: (*_place(space, pair[1]), pair[1].instance.id))
        found += [Changed(name, len(of_kind), shown)] if of_kind else []
    return found


def choose(space: Space, rollouts: Sequence[Rollout], count: int) -> list[Rollout]:
    """At most `count` failures, by category and stratum.

    Each pick has the category, then the stratum, that was picked least so far; the instance id breaks ties.
    """
    failed = sorted((r for r in rollouts if r.verdict.category), key=lambda r: r.instance.id)
    picked = _spread(failed, count, lambda r: r.verdict.category, lambda r: r.instance.stratum)
    return sorted(picked, key=lambda r: (*_place(space, r), r.instance.id))


def _spread(found: Sequence[T], count: int, *features: Callable[[T], str | None]) -> list[T]:
    """At most `count`, each with the features, the first one first, that were picked least so far."""
    left, picked, seen = list(found), list[T](), [Counter[str | None]() for _ in features]
    while left and len(picked) < count:
        best = min(left, key=lambda one: [of[by(one)] for of, by in zip(seen, features, strict=True)])
        left.remove(best)
        picked.append(best)
        for of, by in zip(seen, features, strict=True):
            of[by(best)] += 1
    return picked


def _place(space: Space, rollout: Rollout) -> tuple[int, int]:
    """Where category and stratum stand in the space; what it does not have is last."""
    categories, strata = list(space.categories), list(space.names)
    found = ((categories, rollout.verdict.category), (strata, rollout.instance.stratum))
    category, stratum = (names.index(name) if name in names else len(names) for names, name in found)
    return category, stratum
