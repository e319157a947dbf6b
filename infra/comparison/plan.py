"""What a comparison can show, said before it is run."""

from itertools import product

import pandas as pd

from envgen.estimates import detectable
from infra.comparison.spec import ComparisonSpec
from infra.config.preset import Preset
from infra.tables import frame

RUN_SD = (0.005, 0.01, 0.03)
"""Assumed standard deviations of a difference between training runs."""


def plan(spec: ComparisonSpec) -> pd.DataFrame:
    """Return the smallest true difference of valid rates that is shown with 80 % power: a row for each
    number of seeds, tested alone as the primary one or at Holm's first step; a column for each `RUN_SD`."""
    instances, asked = count_instances(spec.base), len(spec.file.seeds)
    tests = len(spec.tested) - bool(spec.file.primary)
    counts = dict.fromkeys(([1] if spec.file.primary else []) + [max(1, tests)])
    rows = []
    for seeds, count in product(sorted({2, 3, 5, 10, asked}), counts):
        values = [detectable(seeds, instances, count, run_sd=spread) for spread in RUN_SD]
        limit = "; of these policies only" if seeds == 1 else ""
        label = f"{seeds} (asked for{limit})" if seeds == asked else f"{seeds}"
        named = [label, "alone" if count == 1 else f"one of {count}"]
        rows.append([*named, *(f"{100 * value:.1f}" if value < 1 else "none" for value in values)])
    return frame(["seeds", "tested", *(f"runs differ by {100 * spread:g}" for spread in RUN_SD)], rows)


def count_instances(preset: Preset) -> int:
    """Return the number of instances of the test set, before instances of the validation set are left out."""
    assert preset.test is not None
    if preset.test.file:
        return len(preset.test.read(preset.task))
    return sum(count for *_, count in preset.test.like(preset.validation).parts(preset.space))
