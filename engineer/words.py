"""Words for what a space has."""

from envgen.space import Space


def plural(noun: str) -> str:
    """Several of a noun that a space has: `kinds of sum`."""
    head, of, rest = noun.partition(" of ")
    return f"{head.removesuffix('s')}s{of}{rest}"


def named(space: Space, names: list[str]) -> str:
    """Strata by their labels, in this order: `2 terms, 3 terms`."""
    return ", ".join(map(space.label, names))
