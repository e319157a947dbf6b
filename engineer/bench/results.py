"""Results of the bench: gains of engineers over `fixed`, as shares of the gain of a look-ahead, by trap."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit

from engineer.bench.worlds import NOTHING
from envgen.estimates import ALPHA, Difference
from envgen.frozen import Frozen


class Played(Frozen):
    """An engineer in one draw of a trap."""

    trap: str
    score: float
    """Mean valid rate over strata after the last stage, 0 to 1."""
    used: int = 0
    """Designs that were used."""
    asked: int = 0
    """Designs that were asked for."""
    tokens: int = 0
    """Tokens of questions and answers."""


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
    tokens: int


class BenchResults(Frozen):
    """All engineers in the same worlds, the best first."""

    draws: int
    stages: int
    engineers: tuple[EngineerScore, ...]


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
        gains[trap] = _difference(gain.mean(), _error(gain), draws)
        if trap != NOTHING:
            ratio = gain.mean() / reach.mean()  # of means; its error by linearization
            errors.append(_error(gain - ratio * reach) / reach.mean())
            shares[trap] = _difference(ratio, errors[-1], draws)
    mean = np.mean([share.value for share in shares.values()])
    overall = _difference(mean, np.linalg.norm(errors) / len(errors), draws)
    spent = {field: sum(getattr(game, field) for game in games) for field in ("used", "asked", "tokens")}
    return EngineerScore(engineer=name, overall=overall, shares=shares, gains=gains, **spent)


def _error(values: np.ndarray) -> float:
    """Return the standard error of the mean of values."""
    return values.std(ddof=1) / np.sqrt(len(values))


def _difference(value: Any, error: Any, draws: int) -> Difference:
    """Return a value with interval and p-value of Student's distribution."""
    reach = stdtrit(draws - 1, 1 - ALPHA / 2) * error
    p = 2 * stdtr(draws - 1, -abs(value) / error) if error else float(value == 0)
    return Difference(value=value, low=value - reach, high=value + reach, p=p)
