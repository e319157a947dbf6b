"""Learner of the bench: a policy that is a few numbers, trained by the expected step of GRPO.

The model is the same as in `policy.simulated`, without texts: skills are logits, and a step moves each of
them along the policy gradient with the advantages of groups. Expectations replace samples, so that one call
trains many copies of a learner, each on its own config. Arrays: S strata; skills (..., S, 3), rates
(..., S, 2).
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import comb, expit

PLAIN, TRICK, READABLE = range(3)
"""Skills of a stratum, the last axis: a right answer, what a trick adds to it, a readable answer."""
GROUP = 8
"""Answers to a prompt."""
STEPS = 12
"""Steps of a stage."""
PROMPTS = 32
"""Prompts of a step."""
_GRID = np.linspace(0, 1, 257)
_COUNTS = np.arange(GROUP + 1)
_CHANCES = comb(GROUP, _COUNTS) * _GRID[:, None] ** _COUNTS * (1 - _GRID[:, None]) ** (GROUP - _COUNTS)
_SPREAD = _CHANCES @ np.sqrt(_COUNTS / GROUP * (1 - _COUNTS / GROUP))


def spread(rates: np.ndarray) -> np.ndarray:
    """Return the expected standard deviation of the 0/1 rewards of a group, from valid rates; same shape."""
    return np.interp(rates, _GRID, _SPREAD)


@dataclass(frozen=True)
class World:
    """Learner of one draw of a trap: its first skills, and how they move. Logits, if nothing else is said."""

    skills: np.ndarray
    """Skills of the base policy; shape (S, 3)."""
    rate: float
    """Length of the steps of a whole stage along a gradient of 1."""
    speed: tuple[float, float, float] = (1.0, 1.0, 8.0)
    """How fast each skill moves; a format is one habit for all instances of a stratum, and quick to learn."""
    transfer: float = 0.15
    """Part of a step that the neighbouring strata get; those beyond get its powers."""
    rest: np.ndarray | None = None
    """Skills (S, 3) that a stratum falls back to where it is not trained; None: nothing is forgotten."""
    forgetting: float = 0.06
    """Part of the way back to `rest` in a step without prompts of the stratum."""
    harm: float = 0.0
    """Signal of instances with a trick that makes right answers of the stratum less likely, as a part of
    it."""
    ladder: bool = False
    """Whether an answer is right only if all lower strata are mastered as well."""
    answers: int = 40
    """Validation answers of each stratum; half of them to instances with a trick."""
    noise: float = 0.08
    """Standard deviation of a random change of each skill in a stage."""

    def right(self, skills: np.ndarray) -> np.ndarray:
        """Return the probability of a right answer, read or not; (..., S, 2), without and with a trick."""
        own = self._own(skills)
        if not self.ladder:
            return own
        mastered = np.cumprod(expit(skills[..., PLAIN]), axis=-1)[..., :-1]
        return own * np.insert(mastered, 0, 1.0, axis=-1)[..., None]

    def score(self, skills: np.ndarray) -> np.ndarray:
        """Return the mean valid rate over strata; half of the instances have a trick; shape (...)."""
        return self._rates(skills).mean(axis=(-2, -1))

    def stage(
        self, skills: np.ndarray, shares: np.ndarray, tricks: np.ndarray, rng: np.random.Generator | None
    ) -> np.ndarray:
        """Return the skills after a stage on shares (..., S) of the data, each with a part (..., S) of
        tricks; `rng` None: without noise.
        """
        data = shares[..., None] * np.stack([1 - tricks, tricks], axis=-1)
        unseen = (1 - shares[..., None]) ** PROMPTS
        for _ in range(STEPS):
            step = self.rate / STEPS * self._gradient(skills, data)
            if self.rest is not None:
                step = step - self.forgetting * unseen * (skills - self.rest)
            skills = skills + step
        return skills if rng is None else skills + rng.normal(0, self.noise, skills.shape[-2:])

    def _rates(self, skills: np.ndarray) -> np.ndarray:
        return self.right(skills) * expit(skills[..., READABLE, None])

    def _own(self, skills: np.ndarray) -> np.ndarray:
        plain = skills[..., PLAIN]
        return expit(np.stack([plain, plain + skills[..., TRICK]], axis=-1))

    def _gradient(self, skills: np.ndarray, data: np.ndarray) -> np.ndarray:
        """Return the expected policy gradient, shape (..., S, 3).

        With v the valid rate, a reward of 0 or 1 scaled by its standard deviation and a factor of probability
        q that a valid answer needs, the derivative is E[std] (1 - q) / (1 - v).
        """
        rates, own = self._rates(skills), self._own(skills)
        signal = data * spread(rates) / np.maximum(1 - rates, 1e-9)
        total, earned = signal.sum(axis=-1), signal * (1 - own)
        plain, trick = earned.sum(axis=-1), earned[..., 1]
        if self.ladder:
            above = np.cumsum(total[..., ::-1], axis=-1)[..., ::-1] - total
            plain = plain + above * (1 - own[..., 0])
        plain = plain - self.harm * data[..., 1] * spread(rates[..., 1])
        places = np.arange(skills.shape[-2])
        plain = plain @ self.transfer ** np.abs(places[:, None] - places)
        readable = total * (1 - expit(skills[..., READABLE]))
        return np.stack([plain, trick, readable], axis=-1) * self.speed
