"""The one way in which envgen compiles its inner loops: numba, with the machine code cached on disk."""

import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.types import unliteral

# numba fills its settings in at run time, and its stubs lack the option that leaves reference counting out.
_settings: Any = numba.config
_compile: Any = numba.njit


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` at its first call.

    Without numba's reference counting: compiled code works on arrays that its caller allocated, and allocates
    none.
    """
    before, _settings.CACHE_DIR = _settings.CACHE_DIR, str(cache_directory())
    try:
        dispatcher = _compile(cache=True, error_model="numpy", _nrt=False)(function)
    finally:
        _settings.CACHE_DIR = before
    # Once for all integers: numba would compile it again for each constant that it is called with.
    typed = dispatcher.get_call_template
    dispatcher.get_call_template = lambda args, kws: typed(
        [unliteral(kind) for kind in args], {name: unliteral(kind) for name, kind in kws.items()}
    )
    return dispatcher


@cache
def cache_directory() -> Path:
    """Where the machine code of this version of the sources is kept.

    That is NUMBA_CACHE_DIR, else beside the sources, else in the temporary directory.

    numba looks for changes only in the file of the function that is called, not in what it calls; so the
    directory's name holds a digest of all compiled sources.
    """
    here = Path(__file__).parent
    content = hashlib.sha256()
    for source in [Path(__file__), *sorted((here / "solver").rglob("*.py"))]:
        content.update(source.read_bytes())
    name = f"numba-{content.hexdigest()[:16]}"
    if _settings.CACHE_DIR:
        return Path(_settings.CACHE_DIR) / name
    beside_sources = here / "__pycache__"
    if os.access(beside_sources if beside_sources.exists() else here, os.W_OK):
        return beside_sources / name
    return Path(tempfile.gettempdir()) / f"envwright-{os.getuid()}" / name
