"""`envwright` as a person calls it, inside of this process."""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from flows.cli import main
from policy.checkpoints import TINY_DIRECTORY
from policy.grpo.model_size import CONFIGS, ModelSize, count, model_size


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
    """Run a command in `tmp_path`, with its runs there; `typed` is what its standard input holds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: object, typed: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "argv", ["envwright", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(typed), encoding="utf-8"))
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


@pytest.fixture(scope="module")
def models_are_counted_here() -> Iterator[None]:
    """Counting loads transformers in a process of its own, which takes seconds; here is one that has it."""
    configs = json.loads(CONFIGS.read_text())
    known: dict[str, ModelSize] = {}

    def counted(model: str, lora: dict[str, Any] | None = None) -> ModelSize:
        key = f"{model} {lora}"
        if key not in known:
            if model in configs:
                known[key] = count("", configs[model], lora)
            elif model == "tiny":
                known[key] = count(str(TINY_DIRECTORY), None, lora)
            else:
                known[key] = model_size(model, lora)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flows.commands.dry_run.model_size", counted)
        yield
