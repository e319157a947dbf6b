"""`envwright approve`: what it takes for a decision."""

from pathlib import Path

import pytest
from finished_runs import MICRO, finished_run
from typer.testing import CliRunner

from flows.cli import app
from infra.runs.run import RunRef


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunRef:
    """A run whose stage 0 has proposed."""
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path / "runs"))
    preset = MICRO.model_copy(update={"approval": "required", "stages": 2})
    return finished_run(tmp_path / "runs" / "mine", (4, 5), preset)


@pytest.mark.parametrize("typed", ["", "n\n", "\n"], ids=["nothing", "no", "an empty line"])
def test_without_a_terminal_too_only_a_yes_decides(run: RunRef, typed: str):
    said = CliRunner().invoke(app, ["approve", "mine"], input=typed)
    assert said.exit_code == 1
    assert run.stage(0).decision is None


@pytest.mark.parametrize(("arguments", "typed"), [((), "y\n"), (("--yes",), "")])
def test_a_yes_decides(run: RunRef, arguments: tuple[str, ...], typed: str):
    said = CliRunner().invoke(app, ["approve", "mine", *arguments], input=typed)
    assert said.exit_code == 0, said.output
    assert run.stage(0).decision is not None
