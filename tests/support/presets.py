"""The shipped presets as parameters of tests."""

from importlib.util import find_spec

import pytest

from infra.config.preset import shipped_presets

OF_PUZZLES = ("puzzles", "tiny-puzzles")
needs_reasoning_gym = pytest.mark.skipif(find_spec("reasoning_gym") is None, reason="needs reasoning-gym")
EVERY = [
    pytest.param(name, marks=needs_reasoning_gym) if name in OF_PUZZLES else name
    for name in shipped_presets()
]
"""Their names; of an environment that needs a package that is not installed they are skipped."""
