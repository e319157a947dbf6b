"""A simulated learner: skills that move by the expected step of GRPO.

`policy.simulated` trains it on the answers of a run, `engineer.bench` in worlds without answers. Arrays: S
strata, K kinds of their instances. Skills (..., S, 2 + L) are logits: a right answer, what each of L labels
adds to it, a readable answer. Kinds (K, L) of 0 and 1 say which labels an instance has; rates (..., S, K).
"""

import numpy as np
from pydantic import Field
from scipy.special import comb, expit

from envgen.frozen import Frozen

RIGHT, LABELS, READABLE = 0, slice(1, -1), -1
"""Skills of a stratum, the last axis."""
GROUP = 8
"""Answers to a prompt, for `spread`."""
_GRID = np.linspace(0, 1, 257)
_COUNTS = np.arange(GROUP + 1)
_CHANCES = comb(GROUP, _COUNTS) * _GRID[:, None] ** _COUNTS * (1 - _GRID[:, None]) ** (GROUP - _COUNTS)
_SPREAD = _CHANCES @ np.sqrt(_COUNTS / GROUP * (1 - _COUNTS / GROUP))


def spread(rates: np.ndarray) -> np.ndarray:
    """Return the expected standard deviation of the 0/1 rewards of a group, from valid rates; same shape."""
    return np.interp(rates, _GRID, _SPREAD)


class Learner(Frozen):
    """How skills move."""

    rate: float = Field(default=0.5, ge=0)
    """Length of a step along a gradient of 1."""
    speed: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """Factors of a step: right answers, labels, readable answers."""
    transfer: float = Field(default=0.4, ge=0, le=1)
    """Part of a step that the neighbouring strata get too; those beyond get its powers."""
    forgetting: float = Field(default=0.01, ge=0, le=1)
    """Part of the way back to the skills at rest in a step without instances of the stratum."""
    noise: float = Field(default=0.08, ge=0)
    """Standard deviation of a random change of each skill in a stage."""
    harm: float = Field(default=0.0, ge=0)
    """Part of the signal of instances with the first label that makes right answers less likely."""
    ladder: bool = False
    """Whether an answer is right only if all lower strata are mastered as well."""

    def right(self, skills: np.ndarray, kinds: np.ndarray) -> np.ndarray:
        """Return the probability of a right answer, read or not."""
        own = self._own(skills, kinds)
        if not self.ladder:
            return own
        mastered = np.cumprod(expit(skills[..., RIGHT]), axis=-1)[..., :-1]
        return own * np.insert(mastered, 0, 1.0, axis=-1)[..., None]

    def valid(self, skills: np.ndarray, kinds: np.ndarray) -> np.ndarray:
        """Return the probability of a right answer that can be read."""
        return self.right(skills, kinds) * expit(skills[..., READABLE, None])

    def moved(
        self, skills: np.ndarray, kinds: np.ndarray, signal: np.ndarray, unseen: np.ndarray, rest: np.ndarray
    ) -> np.ndarray:
        """Return the skills after a step, without noise.

        `signal` (..., S, K) is the mean over answers of their advantage, 0 for invalid ones: the share of the
        data times `spread` where rewards are 0 and 1. `unseen` (..., S) is the probability that a step has no
        instance of a stratum, which then moves towards the skills at `rest`. Along the logit of a probability
        q that a valid answer of probability v needs, the derivative is signal (1 - q) / (1 - v).
        """
        own, open_ = self._own(skills, kinds), np.maximum(1 - self.valid(skills, kinds), 1e-9)
        total = (signal / open_).sum(axis=-1)
        earned = signal / open_ * (1 - own)
        right = earned.sum(axis=-1)
        if self.ladder:
            above = np.cumsum(total[..., ::-1], axis=-1)[..., ::-1] - total
            right = right + above * (1 - own[..., 0])
        if self.harm:
            right = right - self.harm * (signal @ kinds[:, 0])
        places = np.arange(skills.shape[-2])
        right = right @ self.transfer ** np.abs(places[:, None] - places)
        readable = total * (1 - expit(skills[..., READABLE]))
        fast, slow, form = self.speed
        parts = [fast * right[..., None], slow * (earned @ kinds), form * readable[..., None]]
        step = self.rate * np.concatenate(parts, axis=-1)
        return skills + step - self.forgetting * unseen[..., None] * (skills - rest)

    def _own(self, skills: np.ndarray, kinds: np.ndarray) -> np.ndarray:
        return expit(skills[..., RIGHT, None] + skills[..., LABELS] @ kinds.T)
