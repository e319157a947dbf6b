"""Failure breakdown: what a policy got right and wrong, counted per stratum, with intervals."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import not_
from typing import Any, NamedTuple, Self

import numpy as np
from pydantic import Field, NonNegativeInt, model_validator

from envgen.environment import Verdict
from envgen.estimates import Rate, wilson
from envgen.frozen import Frozen
from envgen.space import Space


class Labelled(Frozen):
    """Counts of the answers to instances that have a label, or that have not."""

    n: int = Field(ge=0)
    valid: int = Field(ge=0)
    samples: int = Field(default=1, ge=1, exclude_if=lambda samples: samples == 1)
    """Answers to each instance."""

    @property
    def instances(self) -> int:
        """Number of instances."""
        return self.n // self.samples

    def share(self, answers: float) -> Rate:
        """Share of a number of the answers; answers to one instance count as one outcome, see `wilson`."""
        return wilson(answers / self.samples, self.instances)

    @property
    def valid_rate(self) -> Rate:
        """Share of valid answers."""
        return self.share(self.valid)

    @property
    def valid_percent(self) -> int:
        """Share of valid answers in whole percent, as it is shown; 0 without answers."""
        return round(100 * self.valid / self.n) if self.n else 0


class Counts(Labelled):
    """Counts of one stratum, or of all strata together."""

    optimal: int = Field(ge=0)
    failures: dict[str, NonNegativeInt]
    """Failure category -> answers."""
    labels: dict[str, Labelled] = {}
    """Label -> counts of the instances that have it; none if they are not known."""
    terms: dict[str, float] = {}
    """Mean of each term of partial progress, 0 to 1; none if only the counts are known."""
    measures: dict[str, float] = {}
    """Mean of each further measure over the valid answers; none without valid answers."""
    truncated: int | None = Field(default=None, ge=0)
    """Answers that hit the token limit; None if only the counts are known."""
    solved: int | None = Field(default=None, ge=0, exclude_if=lambda solved: solved is None)
    """Instances with at least one valid answer; None with one answer each."""
    spread: dict[str, float] = Field(default={}, exclude_if=not_)
    """`valid`, `optimal` -> sum of p (1 - p) over the instances, p the share of such answers to an instance;
    empty with one answer each."""
    parts: tuple["Counts", ...] = Field(default=(), exclude=True)
    """Counts of each stratum, whose numbers of instances were fixed; none of counts of a single one."""

    @model_validator(mode="after")
    def _add_up(self) -> Self:
        if self.optimal > self.valid or self.valid + sum(self.failures.values()) != self.n:
            failures = f"{sum(self.failures.values())} failures"
            counts = f"{self.valid} valid, {self.optimal} of them optimal, {failures}"
            raise ValueError(f"{counts}: do not make {self.n} answers")
        for label, has in self.labels.items():
            if has.valid > min(has.n, self.valid) or self.valid - has.valid > self.n - has.n:
                counts = f"{has.n} of {self.n} answers and {has.valid} of {self.valid} valid ones"
                raise ValueError(f"{label}: {counts} do not fit together")
        return self

    @property
    def valid_rate(self) -> Rate:
        """Share of valid answers; its interval rests on the variance within strata."""
        return self._rate("valid")

    @property
    def optimal_rate(self) -> Rate:
        """Share of answers that are valid and the best, likewise."""
        return self._rate("optimal")

    @property
    def pass_rate(self) -> Rate | None:
        """pass@k: share of instances with at least one valid answer of k; None with one answer each."""
        return None if self.solved is None else self._rate("solved")

    def _rate(self, name: str) -> Rate:
        parts = self.parts or (self,)
        successes = [getattr(part, name) / (1 if name == "solved" else part.samples) for part in parts]
        spread = [part.spread.get(name, 0.0) for part in parts]
        return wilson(successes, [part.instances for part in parts], spread)

    def split(self, label: str) -> tuple[Labelled, Labelled] | None:
        """Counts of the instances with a label, and without; None if not known, or if one has none."""
        has = self.labels.get(label)
        if has is None or not 0 < has.n < self.n:
            return None
        return has, Labelled(n=self.n - has.n, valid=self.valid - has.valid, samples=self.samples)

    def term_rate(self, term: str) -> Rate | None:
        """Mean of a term. Its interval errs on the wide side, see `wilson`."""
        return None if term not in self.terms else self.share(self.terms[term] * self.n)


class Breakdown(Frozen):
    """Failure breakdown of one evaluation: stratum -> counts."""

    strata: dict[str, Counts] = Field(min_length=1)

    @property
    def overall(self) -> Counts:
        """All strata together."""
        parts = tuple(self.strata.values())
        labels, failures = _common([part.labels for part in parts]), Counter[str]()
        for part in parts:
            failures.update(part.failures)
        return Counts(
            parts=parts,
            **_totals(parts),
            optimal=sum(part.optimal for part in parts),
            failures=failures,
            labels={name: Labelled(**_totals([part.labels[name] for part in parts])) for name in labels},
            terms=_means([(part.terms, part.n) for part in parts]),
            measures=_means([(part.measures, part.valid) for part in parts]),
            truncated=_sum(part.truncated for part in parts),
            solved=_sum(part.solved for part in parts),
        )


def format_alarms(space: Space, breakdown: Breakdown) -> dict[str, str]:
    """Return a sentence for each stratum with the format alarm: most of its answers could not be read (the
    first failure category) or scored (`Space.fault`). Such a stratum is not hard but broken."""
    alarms = {}
    for name, part in breakdown.strata.items():
        failed = sum(part.failures.get(category or "", 0) for category in {space.categories[0], space.fault})
        if 2 * failed > part.n:
            unread = f"{failed} of {part.n} answers could not be read or scored"
            valid = f"{part.valid} valid" if part.valid else "no answer is valid"
            alarms[name] = f"{space.label(name)}: format, not skill: {unread}, {valid}"
    return alarms


class Judged(NamedTuple):
    """What is counted of one answer."""

    stratum: str
    verdict: Verdict
    labels: frozenset[str] = frozenset()
    measures: dict[str, float] = {}
    truncated: bool | None = None


def count_verdicts(space: Space, answers: Iterable[Judged], samples: int = 1) -> Breakdown:
    """The breakdown of judged answers, strata in the order of the space. `samples`: answers to each instance,
    which stand in a row."""
    groups: dict[str, list[Judged]] = {name: [] for name in space.names}
    for answer in answers:
        groups.setdefault(answer.stratum, []).append(answer)
    return Breakdown(strata={name: _counts(space, group, samples) for name, group in groups.items() if group})


def _counts(space: Space, answers: list[Judged], samples: int) -> Counts:
    verdicts, labels = [answer.verdict for answer in answers], dict[str, Labelled]()
    for name in (knob.label.name for knob in space.asked if knob.label):
        has = [answer.verdict.valid for answer in answers if name in answer.labels]
        labels[name] = Labelled(n=len(has), valid=sum(has), samples=samples)
    flags = np.array([[v.valid, v.optimal] for v in verdicts]).reshape(-1, samples, 2)
    spread = flags.var(axis=1).sum(axis=0)  # the variance of flags is p (1 - p)
    return Counts(
        n=len(verdicts),
        samples=samples,
        valid=sum(verdict.valid for verdict in verdicts),
        optimal=sum(verdict.optimal for verdict in verdicts),
        failures={name: sum(verdict.category == name for verdict in verdicts) for name in space.categories},
        labels=labels,
        # fsum: the same whatever the order of the answers.
        terms={name: math.fsum(v.terms[name] for v in verdicts) / len(verdicts) for name in space.terms},
        measures=_means([(answer.measures, answer.verdict.valid) for answer in answers]),
        truncated=_sum(answer.truncated for answer in answers),
        solved=int(flags[:, :, 0].any(axis=1).sum()) if samples > 1 else None,
        spread=dict(zip(("valid", "optimal"), spread.tolist(), strict=True)) if samples > 1 else {},
    )


def _totals(parts: Sequence[Labelled]) -> dict[str, Any]:
    samples = parts[0].samples
    return {"n": sum(p.n for p in parts), "valid": sum(p.valid for p in parts), "samples": samples}


def _common(mappings: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the names that all mappings have."""
    first, *others = mappings or [{}]
    return [name for name in first if all(name in mapping for mapping in others)]


def _means(weighted: list[tuple[dict[str, float], int]]) -> dict[str, float]:
    """The means of what all parts with a weight know; none without weight."""
    parts = [(values, weight) for values, weight in weighted if weight]
    return {
        name: math.fsum(values[name] * weight for values, weight in parts)
        / sum(weight for _, weight in parts)
        for name in _common([values for values, _ in parts])
    }


def _sum(counts: Iterable[int | None]) -> int | None:
    """The sum of counts; None if one of them is unknown."""
    values = list(counts)
    return None if None in values else sum(filter(None, values))
