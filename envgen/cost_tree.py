"""Increasing-cost-tree search (Sharon et al. 2013) on bitboards.

Each agent gets a cost (its distance plus an excess); the multi-value decision diagram (MDD) of that cost holds, per
step, the cells on some path whose last arrival has exactly that cost. The smallest total excess whose MDDs contain a
conflict-free joint plan is optimal in the sum of costs.
"""

from collections.abc import Iterator

from envgen.grid import Grid, bits

Mdd = list[int]
PairTable = list[dict[int, int]]
"""Per step: a cell of the first agent -> the cells of the second from which both can still finish; empty if they cannot at all."""


class CostTree:
    """The search over one board; `starts` and `goals` are bit indices, every goal is reachable."""

    def __init__(self, grid: Grid, starts: list[int], goals: list[int], *, waits: bool = True) -> None:
        self.grid, self.starts, self.goals, self.waits = grid, starts, goals, waits
        self.agents = range(len(starts))
        self.distance = []
        self._ahead: list[list[int]] = []
        for start, goal in zip(starts, goals, strict=True):
            layers = grid.layers(goal)
            self.distance.append(next(d for d, layer in enumerate(layers) if layer >> start & 1))
            self._ahead.append(layers)
        self._mdds: dict[tuple[int, int], Mdd] = {}
        self._pairs: dict[tuple[int, int, int, int], PairTable] = {}

    def search(self, total_excess: int) -> list[list[int]] | None:
        """Paths of an optimal plan whose costs exceed the distances by `total_excess` in total, or None."""
        for excess in _splits(total_excess, len(self.starts)):
            paths = self.plan(excess)
            if paths is not None:
                return paths
        return None

    def plan(self, excess: tuple[int, ...]) -> list[list[int]] | None:
        """A conflict-free joint plan in which agent i costs its distance plus `excess[i]`, or None."""
        mdds = [self._mdd(agent, excess[agent]) for agent in self.agents]
        pairs = {(j, i): (j, i, excess[j], excess[i]) for i in self.agents for j in range(i)}
        if not all(mdds) or any(key in self._pairs and not self._pairs[key] for key in pairs.values()):
            return None
        for order in _orders(len(self.starts)):
            paths = self._prioritised(mdds, order)
            if paths is not None:
                return paths
        for (j, i), key in pairs.items():
            if key not in self._pairs:
                self._pairs[key] = self._pair_table(mdds[j], mdds[i])
            if not self._pairs[key]:
                return None
        return self._joint(mdds, {pair: self._pairs[key] for pair, key in pairs.items()})

    def _mdd(self, agent: int, excess: int) -> Mdd:
        """Cells per step on paths of the given excess; empty where none exists (parity, without waits)."""
        key = (agent, excess)
        if key not in self._mdds:
            self._mdds[key] = self._build_mdd(agent, excess)
        return self._mdds[key]

    def _build_mdd(self, agent: int, excess: int) -> Mdd:
        cost = self.distance[agent] + excess
        goal = 1 << self.goals[agent]
        if cost == 0:
            return [goal]
        spread = self._spread if self.waits else self.grid.neighbours
        forward = [1 << self.starts[agent]]
        for _ in range(cost):
            forward.append(spread(forward[-1]))
        if not forward[cost] & goal:
            return []
        layers = [goal]
        for step in range(cost - 1, -1, -1):
            cells = spread(layers[-1]) & forward[step]
            if step == cost - 1:
                cells &= ~goal  # otherwise the last arrival would be earlier
            if not cells:
                return []
            layers.append(cells)
        return layers[::-1]

    def _spread(self, cells: int) -> int:
        return self.grid.neighbours(cells) | cells

    def _options(self, cell: int) -> int:
        word = 1 << cell
        return self._spread(word) if self.waits else self.grid.neighbours(word)

    def _prioritised(self, mdds: list[Mdd], order: tuple[int, ...]) -> list[list[int]] | None:
        """Plan the agents one after another inside their MDDs; a plan found is a proof, None is not."""
        horizon = max(map(len, mdds))
        paths: dict[int, list[int]] = {}
        for agent in order:
            path = self._single(mdds[agent], [paths[other] for other in paths], horizon)
            if path is None:
                return None
            paths[agent] = path
        return [paths[agent][: len(mdds[agent])] for agent in self.agents]

    def _single(self, mdd: Mdd, others: list[list[int]], horizon: int) -> list[int] | None:
        """A path through `mdd` (padded with its goal to `horizon` cells) that avoids padded paths of others."""
        reach = [mdd[0]]
        for other in others:
            if mdd[0] >> other[0] & 1:
                return None
        for step in range(1, horizon):
            at_rest = step >= len(mdd)
            here = reach[-1]
            there = here if at_rest else (self._spread(here) if self.waits else self.grid.neighbours(here)) & mdd[step]
            for other in others:
                there &= ~(1 << other[step])
                swapped = other[step - 1]
                if there >> swapped & 1 and here >> other[step] & 1:
                    entries = self._options(swapped) & here & ~(1 << other[step])
                    if not entries:
                        there &= ~(1 << swapped)
            if not there:
                return None
            reach.append(there)
        return self._trace(mdd, reach, others)

    def _trace(self, mdd: Mdd, reach: list[int], others: list[list[int]]) -> list[int]:
        last = next(bits(reach[-1]))
        path = [last]
        for step in range(len(reach) - 1, 0, -1):
            options = 1 << path[-1] if step >= len(mdd) else self._options(path[-1])
            options &= reach[step - 1]
            for other in others:
                if other[step - 1] == path[-1]:
                    options &= ~(1 << other[step])
            path.append(next(bits(options)))
        return path[::-1]

    def _pair_table(self, first: Mdd, second: Mdd) -> PairTable:
        """Backwards from the goals, one agent enumerated, the other a bit set."""
        table = [{next(bits(first[-1])): second[-1]}]
        for step in range(max(len(first), len(second)) - 1, 0, -1):
            later, earlier = table[-1], {}
            before = second[min(step, len(second)) - 1]
            for cell in bits(first[min(step, len(first)) - 1]):
                partners = 0
                for target in self._targets(first, step, cell):
                    partners |= self._origins(second, step, later.get(target, 0), cell, target)
                partners &= before & ~(1 << cell)
                if partners:
                    earlier[cell] = partners
            if not earlier:
                return []
            table.append(earlier)
        return table[::-1]

    def _origins(self, mdd: Mdd, step: int, cells: int, gone: int, taken: int) -> int:
        """From where an agent reaches `cells` in this step while another moves from `gone` to `taken`."""
        if step >= len(mdd):
            return cells
        origins = self._spread(cells) if self.waits else self.grid.neighbours(cells)
        if not self._options(taken) & cells & ~(1 << gone):
            origins &= ~(1 << taken)  # the only way from there would be a swap
        return origins

    def _targets(self, mdd: Mdd, step: int, cell: int) -> Iterator[int]:
        return iter((cell,)) if step >= len(mdd) else bits(self._options(cell) & mdd[step])

    def _joint(self, mdds: list[Mdd], pairs: dict[tuple[int, int], PairTable]) -> list[list[int]] | None:
        """Depth-first search of the product of the MDDs; visited joint states are never entered again."""
        horizon = max(map(len, mdds))
        start = tuple(self.starts)
        dead: set[tuple[int, tuple[int, ...]]] = set()
        trail = [start]
        stack = [self._successors(mdds, pairs, 1, start)]
        while stack:
            if len(trail) == horizon:
                return [[state[i] for state in trail][: len(mdds[i])] for i in self.agents]
            following = next(stack[-1], None)
            if following is None:
                stack.pop()
                trail.pop()
            elif (len(trail), following) not in dead:
                dead.add((len(trail), following))
                trail.append(following)
                stack.append(self._successors(mdds, pairs, len(trail), following))
        return None

    def _successors(self, mdds: list[Mdd], pairs: dict[tuple[int, int], PairTable], step: int, state: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """Joint moves without conflicts after which every two agents, taken alone, can still finish."""

        def extend(chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
            agent = len(chosen)
            if agent == len(state):
                yield chosen
                return
            cells = 1 << state[agent] if step >= len(mdds[agent]) else self._options(state[agent]) & mdds[agent][step]
            for other, target in enumerate(chosen):
                table = pairs[other, agent]
                if step < len(table):
                    cells &= table[step].get(target, 0)
                if target == state[agent]:
                    cells &= ~(1 << state[other])
            for cell in bits(cells):
                yield from extend((*chosen, cell))

        return extend(())


def conflict_free(state: tuple[int, ...], options: list) -> Iterator[tuple[int, ...]]:
    """Joint moves from `state` without vertex or swap conflicts; `options[i]()` yields agent i's next cells."""

    def extend(chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        agent = len(chosen)
        if agent == len(state):
            yield chosen
            return
        for target in options[agent]():
            if all(target != c and not (target == s and c == state[agent]) for c, s in zip(chosen, state, strict=False)):
                yield from extend((*chosen, target))

    return extend(())


def _splits(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to write `total` as an ordered sum of `parts` non-negative integers."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _splits(total - first, parts - 1):
            yield (first, *rest)


def _orders(agents: int) -> list[tuple[int, ...]]:
    forward = tuple(range(agents))
    rotated = forward[1:] + forward[:1]
    return list(dict.fromkeys([forward, forward[::-1], rotated]))
