"""The rates by which evaluations are compared and nested settings, as MLflow shows them."""

import json
import re
from typing import Any

from envgen.space import Space
from policy.rollouts import Rollout

_ODD = re.compile(r"[^\w.\- /:]")
"""What MLflow refuses in the name of a metric."""


def scores(space: Space, rollouts: list[Rollout]) -> dict[str, float]:
    """Rates of an evaluation: of all answers, by stratum, and by whether an instance has a label.

    `valid`, `valid/LABEL-OF-STRATUM`, `valid/with-LABEL` and `valid/without-LABEL`; `optimal` alike, if some
    answers of the family are better than others.
    """
    groups: dict[str, list[Rollout]] = {"": rollouts}
    labels = [knob.label.name for knob in space.asked if knob.label]
    for rollout in rollouts:
        has = rollout.instance.labels
        names = [f"/{'with' if label in has else 'without'}-{label}" for label in labels]
        for name in (f"/{space.label(rollout.instance.stratum)}", *names):
            groups.setdefault(_ODD.sub("-", name), []).append(rollout)
    rates = {}
    for group, members in groups.items():
        rates[f"valid{group}"] = sum(one.verdict.valid for one in members) / len(members)
        if space.best:
            rates[f"optimal{group}"] = sum(one.verdict.optimal for one in members) / len(members)
    return rates


def flat(value: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings as dotted MLflow parameters, values as short JSON."""
    found: dict[str, str] = {}
    for key, item in value.items():
        if isinstance(item, dict) and item:
            found |= flat(item, f"{prefix}{key}.")
        else:
            found[prefix + key] = item if isinstance(item, str) else json.dumps(item)
    return found
