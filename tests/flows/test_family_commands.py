"""Commands that installed packages add for their families."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

KNOTS = """
import typer

COMMANDS = typer.Typer()


@COMMANDS.command()
def untie(knot: str) -> None:
    "Say that a knot is untied."
    print(f"{knot}: untied")
"""


def call(site: Path, source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`envwright` beside a package that adds the commands of `source`."""
    (site / "knots.py").write_text(source)
    metadata = site / "knots-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: knots\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[envwright.commands]\nknots = knots:COMMANDS\n")
    return subprocess.run(
        [sys.executable, "-m", "flows.cli", *arguments],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_package_adds_commands(tmp_path: Path):
    done = call(tmp_path, KNOTS, "untie", "reef")
    assert (done.returncode, done.stdout, done.stderr) == (0, "reef: untied\n", "")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise RuntimeError('no rope')", "RuntimeError: no rope"),
        ("COMMANDS = 1", "knots:COMMANDS is 1; expected typer.main.Typer"),
    ],
)
def test_commands_that_cannot_be_loaded_are_left_out_with_a_warning(tmp_path: Path, source: str, reason: str):
    done = call(tmp_path, source, "solve", "nowhere.jsonl", "-o", "s")
    warning, error = done.stderr.splitlines()
    assert warning.startswith("warning: envwright.commands: ")
    assert reason in warning
    assert (done.returncode, error) == (2, "error: nowhere.jsonl: no such file")
