"""Shared by the tests of a study."""

import pytest

from infra.analysis.comparison import pilot_gain


@pytest.fixture(autouse=True, scope="module")
def _few_resamples():
    """How coarse the intervals of rank correlations are matters to no test here, and thousands of resamples take seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pilot_gain, "RESAMPLES", 99)
        yield
