"""Answers that a family could not judge are no failures of the policy: too many of them stop a stage."""

from collections.abc import Iterable

from envgen.errors import DataError
from envgen.family import Space, Verdict

SHARE = 0.01
"""Of the answers of a stage that may not be judged."""
ENOUGH = 1_000
"""While a stage goes on, it is taken to have at least so many answers."""


class Faults:
    """Counts the answers of one stage, or of one evaluation, that could not be judged."""

    def __init__(self, space: Space) -> None:
        self._space, self._faults, self._answers = space, 0, 0
        self._detail = ""

    def add(self, verdicts: Iterable[Verdict], *, last: bool = False) -> None:
        """Count some more; DataError with the detail of one if they are too many of those so far.

        `last`: no more will follow.
        """
        if self._space.fault is None:
            return
        for verdict in verdicts:
            self._answers += 1
            if verdict.category == self._space.fault:
                self._faults, self._detail = self._faults + 1, verdict.detail
        if self._faults > SHARE * (self._answers if last else max(self._answers, ENOUGH)):
            raise DataError(
                f"{self._faults} of {self._answers} answers could not be judged, more than {SHARE:.0%}: "
                f"{self._detail}; mend the scorer, then run the same command again"
            )
