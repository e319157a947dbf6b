"""Comparisons of engineers on the micro preset, as the short form asks for them."""

from collections.abc import Sequence
from typing import Any

from infra.comparison.file import short_form
from infra.comparison.spec import ComparisonSpec, resolve_comparison


def comparison(*engineers: str, seeds: Sequence[int] = (0,), settings: Any = None) -> ComparisonSpec:
    return resolve_comparison(short_form("micro", engineers, [*seeds], settings)[0])
