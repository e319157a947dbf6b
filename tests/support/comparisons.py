"""Comparisons of engineers on a preset, as the short form asks for them."""

from typing import Any

from infra.comparison.file import Stage0, short_form
from infra.comparison.spec import ComparisonSpec, resolve_comparison


def comparison(
    *engineers: str,
    preset: str = "micro",
    seeds: list[int] | None = None,
    name: str = "",
    stage_0: Stage0 = "per-seed",
    settings: dict[str, Any] | None = None,
) -> ComparisonSpec:
    file, _ = short_form(preset, engineers, seeds or [0], settings, name, stage_0)
    return resolve_comparison(file)
