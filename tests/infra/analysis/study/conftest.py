"""Shared by the tests of a study."""

import pytest

from infra.analysis import correlation


@pytest.fixture(autouse=True, scope="module")
def _few_resamples():
    """How coarse the intervals of rank correlations are matters to no test here, and thousands of resamples
    take seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(correlation, "RESAMPLES", 99)
        yield
