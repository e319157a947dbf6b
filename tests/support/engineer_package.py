"""A package with an engineer, installed for a test."""

import importlib
import sys
from pathlib import Path


def install_engineer(folder: Path, monkeypatch, source: str, name="tidal", package="tidal_engineer") -> None:
    """Put a package on the path as an installer would: a module with `ENGINEER`, and its metadata."""
    site = folder / package
    metadata = site / f"{package}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / f"{package}.py").write_text(source)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[envwright.engineers]\n{name} = {package}:ENGINEER\n")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, package, raising=False)
    importlib.invalidate_caches()
