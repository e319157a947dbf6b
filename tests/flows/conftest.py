"""`envwright` as a person calls it, inside of this process."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from flows.cli import main


@pytest.fixture
def envwright(tmp_path: Path, monkeypatch, capsys) -> Callable[..., SimpleNamespace]:
    """Run a command in `tmp_path`, with its runs there; how it ended."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: object) -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", ["envwright", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        said = capsys.readouterr()
        return SimpleNamespace(code=caught.value.code, out=said.out, err=said.err)

    return run


@pytest.fixture
def refused(envwright) -> Callable[..., None]:
    """Run a command that ends as one does on bad input: one message that holds `parts`, exit code 2, no
    traceback."""

    def run(arguments: list[object], *parts: str) -> None:
        done = envwright(*arguments)
        assert (done.code, done.out) == (2, ""), done
        assert "Traceback" not in done.err
        for part in parts:
            assert part in done.err

    return run
