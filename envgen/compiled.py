"""The one way in which envgen compiles its inner loops: numba, machine code cached on disk beside the sources."""

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` at its first call.

    Without numba's reference counting: compiled code works on arrays that its caller allocated, and allocates none.
    """
    return njit(cache=True, error_model="numpy", _nrt=False)(function)
