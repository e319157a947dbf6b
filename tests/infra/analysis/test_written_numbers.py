"""How numbers are written."""

import pytest

from infra.analysis.formats import duration, file_size, points


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (870, "870 B"), (1_500, "1.5 kB"), (12_400, "12 kB"), (3.4e6, "3.4 MB"), (2.5e11, "250 GB")],
)
def test_sizes_are_in_the_largest_unit_that_leaves_one(size: float, text: str):
    assert file_size(size) == text.replace(" ", "\u00a0")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(8.24, "8.2 s"), (99, "99 s"), (1_860, "31 min"), (8_640, "2.4 h"), (432_000, "5 days")],
)
def test_times_are_in_the_largest_unit_that_leaves_one(seconds: float, text: str):
    assert duration(seconds) == text.replace(" ", "\u00a0")


def test_what_rounds_to_zero_has_one_sign():
    assert [points(value) for value in (-0.0004, 0.0004, -0.0006, 0.02)] == ["+0.0", "+0.0", "−0.1", "+2.0"]
