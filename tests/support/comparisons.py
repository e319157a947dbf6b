"""Comparisons of engineers on a preset, as the short form asks for them."""

from typing import Any

from infra.comparison.file import short_form
from infra.comparison.spec import ComparisonSpec, resolve_comparison


def comparison(
    *engineers: str,
    preset: str = "micro",
    seeds: list[int] | None = None,
    name: str = "",
    settings: dict[str, Any] | None = None,
) -> ComparisonSpec:
    file, _ = short_form(preset, engineers, seeds or [0], settings, name)
    return resolve_comparison(file)
