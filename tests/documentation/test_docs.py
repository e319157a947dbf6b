"""What the README and the docs say is there: commands and their options, make targets, pages, pictures."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from documentation.pages import PAGES
from documentation.shell_lines import calls, shell_lines
from typer.main import get_command

ROOT = Path(__file__).parents[2]
TEXTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
OF_THE_PAST = {"results.md", "lab-notes.md"}
"""Pages that name commands of earlier versions."""


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_options_make_targets_and_links_exist(path: Path):
    text, lines = path.read_text(), shell_lines(path)
    if path.name not in OF_THE_PAST and f"docs/{path.name}" not in PAGES:
        for line in [*lines, *re.findall(r"`(envwright [^`\n]*--[^`\n]*)`", text)]:
            for arguments in calls(line, "envwright"):
                read(arguments, whole=line in lines)
    makefile = (ROOT / "Makefile").read_text()
    named = re.findall(r"`make ([a-z][\w-]*)", text)
    named += [words[1] for line in lines if (words := line.split())[:1] == ["make"]]
    assert [target for target in named if not re.search(rf"^{target}:", makefile, flags=re.MULTILINE)] == []
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    links = [*re.findall(r"\]\(([^)\s]+)\)", prose), *re.findall(r'<img src="([^"]+)"', prose)]
    links = [link.partition("#")[0] for link in links if not re.match(r"https?:|#", link)]
    assert [link for link in links if not (path.parent / link).exists()] == []


def read(arguments: list[str], whole: bool) -> None:
    """Read all arguments as a call would, and call nothing; what is not whole may leave some out."""
    from flows.cli import app

    command, name = get_command(app), "envwright"
    while (inner := getattr(command, "commands", None)) and arguments and not arguments[0].startswith("-"):
        name, *arguments = arguments
        command = inner[name]
    try:
        command.make_context(name, arguments)
    except Exception as error:
        if whole or type(error).__name__ != "MissingParameter":
            raise


def test_the_readme_and_the_docs_stay_short():
    assert len((ROOT / "README.md").read_text().split()) <= 700
    text = "\n".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
    prose_and_tables = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    assert sum(bool(re.search(r"\w", word)) for word in prose_and_tables.split()) <= 12_000


@pytest.mark.parametrize("page", PAGES)
def test_pages_made_from_the_code_are_up_to_date(page: str):
    assert (ROOT / page).read_text() == PAGES[page](), "run python tests/documentation/pages.py"


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path):
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=True)
    assert (tmp_path / "site" / "quickstart" / "index.html").is_file()
