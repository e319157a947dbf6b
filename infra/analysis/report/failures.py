"""Which failures of a policy the report shows, chosen to differ."""

from collections import Counter
from collections.abc import Sequence

from envgen.family import Space
from policy.rollouts import Rollout


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
