"""Which answers the report shows, chosen to differ."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from envgen.space import Space
from policy.rollouts import Rollout

_CHANGES = {
    "Solved since": (False, True, 4),
    "No longer solved": (True, False, 4),
    "Still failed": (False, False, 4),
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
    earlier, changes = {rollout.instance.id: rollout for rollout in before}, []
    for name, (was, became, count) in _CHANGES.items():
        alike = [
            rollout
            for rollout in after
            if (old := earlier.get(rollout.instance.id))
            and (old.verdict.valid, rollout.verdict.valid) == (was, became)
        ]
        chosen = choose(space, alike, count)
        if alike:
            changes.append(Changed(name, len(alike), [(earlier[new.instance.id], new) for new in chosen]))
    return changes


def choose(space: Space, rollouts: Sequence[Rollout], count: int) -> list[Rollout]:
    """Return at most `count` rollouts by category and stratum: the next one has the category, then the
    stratum, that was chosen least so far; the instance id breaks ties."""

    def order(rollout: Rollout) -> tuple[int, int, str]:
        features = (space.categories, rollout.verdict.category), (space.names, rollout.instance.stratum)
        first, second = (list(names).index(name) if name in names else len(names) for names, name in features)
        return first, second, rollout.instance.id

    left, chosen, seen = sorted(rollouts, key=lambda rollout: rollout.instance.id), [], Counter()
    while left and len(chosen) < count:
        best = min(left, key=lambda r: (seen[r.verdict.category], seen[r.instance.stratum]))
        left.remove(best)
        chosen.append(best)
        seen.update([best.verdict.category, best.instance.stratum])
    return sorted(chosen, key=order)
