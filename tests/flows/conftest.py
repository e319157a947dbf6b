"""`envwright` as a person calls it, inside of this process."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from flows.cli import main


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: object
    out: str
    err: str


Envwright = Callable[..., Done]


@pytest.fixture
def envwright(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Envwright:
    """Run a command in `tmp_path`, with its runs there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["envwright", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        said = capsys.readouterr()
        return Done(caught.value.code, said.out, said.err)

    return run


@pytest.fixture
def refused(envwright: Envwright) -> Callable[..., None]:
    """Run a command that ends as one does on bad input: one message that holds `parts`, exit code 2, no
    traceback."""

    def run(arguments: list[object], *parts: str) -> None:
        done = envwright(*arguments)
        assert (done.code, done.out) == (2, ""), done
        assert "Traceback" not in done.err
        for part in parts:
            assert part in done.err

    return run
