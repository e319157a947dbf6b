"""The README's commands exist, and nothing in it points to a file that is not there."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_every_command_of_the_readme_exists():
    from typer.main import get_command

    from flows.cli import app

    named = set(re.findall(r"`envwright (\w+)", README))
    assert {
        "run",
        "generate",
        "solve",
        "verify",
        "convert",
        "render",
        "play",
        "report",
        "lineage",
        "bootstrap",
        "doctor",
    } <= named
    known = set(get_command(app).commands)  # type: ignore[attr-defined]
    future = set(re.findall(r"`envwright (\w+)`", README.partition("## What it does not do yet")[2]))
    assert named - future <= known
    assert not future & known, "what is there is no longer missing"


def test_every_make_target_of_the_readme_exists():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_every_picture_of_the_readme_is_there():
    for path in re.findall(r"!\[[^]]*\]\(([^)]+)\)", README):
        assert (ROOT / path).is_file(), path
