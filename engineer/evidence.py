"""Check numbers that a model names as evidence against the numbers of its context."""

from engineer.context import DesignContext
from engineer.json_text import number_of
from engineer.proposal import Evidence
from envgen.config import SHARE

MAX_EVIDENCE = 20
ROUNDING = 0.0051
"""Prompts show shares in whole percent, and knobs with two digits."""


def check_evidence(raw: object, context: DesignContext) -> tuple[Evidence, ...]:
    """Return the first items of `[{"stratum": ..., "metric": ..., "value": ...}]` with the true numbers."""
    items = [item for item in raw if isinstance(item, dict)] if isinstance(raw, list) else []
    checked = []
    for item in items[:MAX_EVIDENCE]:
        stratum, metric = (str(item.get(field, ""))[:100] for field in ("stratum", "metric"))
        value, numbers = number_of(item.get("value")), _numbers(context, stratum)
        name = metric.strip().lower().replace(" ", "_").removesuffix("_rate")
        true = next((number for key, number in numbers.items() if key.removesuffix("_rate") == name), None)
        # A rate is a share, a percentage or a count of answers.
        near = [] if true is None else [(true, 1), (100 * true, 100), (true * numbers.get("n", 1), 1)]
        agrees = value is not None and any(abs(value - number) <= ROUNDING * by for number, by in near)
        checked.append(Evidence(stratum=stratum, metric=metric, value=value, true=true, agrees=agrees))
    return tuple(checked)


def _numbers(context: DesignContext, label: str) -> dict[str, float]:
    """Return the numbers that prompts show of a stratum, by their names there; counts as shares."""
    names, record = {stratum.label: stratum.name for stratum in context.space.strata}, context.current
    name = names.get(label, label)
    config, part = record.config.strata.get(name), record.breakdown.strata.get(name)
    numbers = {SHARE: config[SHARE], **config.knobs} if config else {}
    numbers |= {"change": record.change[name].value} if name in record.change else {}
    if not part or not part.n:
        return numbers
    counts = {"valid": part.valid, context.space.best or "optimal": part.optimal, **part.failures}
    counts["truncated"] = part.truncated or 0
    return numbers | part.measures | {key: count / part.n for key, count in counts.items()} | {"n": part.n}
