"""What the README and the docs say is there: commands and their options, make targets, pages, pictures."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from documentation.pages import PAGES
from typer.main import get_command

ROOT = Path(__file__).parents[2]
TEXTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
OF_THE_PAST = {"results.md", "lab-notes.md"}
"""Pages that name commands of earlier versions."""


def blocks(text: str) -> list[str]:
    """The lines of all shell blocks, continued lines joined, comments and variables in front left out."""
    found = "\n".join(re.findall(r"```bash\n(.*?)```", text, flags=re.DOTALL)).replace("\\\n", " ")
    return [line for line in found.splitlines() if line.strip()]


def called(text: str) -> list[list[str]]:
    """Every call of envwright in shell blocks, and in back quotes where it says an option."""
    lines = [part for line in blocks(text) for part in re.split(r"&&|\|\||;", line)]
    lines += re.findall(r"`(envwright [^`\n]*--[^`\n]*)`", text)
    words = [
        shlex.split(line, comments=True) for line in lines if re.match(r"\s*(\S*/|\w+=\S+ )*envwright ", line)
    ]
    return [line[line.index("envwright") + 1 :] for line in words if "envwright" in line]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_and_options_exist(path: Path):
    if path.name in OF_THE_PAST or f"docs/{path.name}" in PAGES:
        return
    from flows.cli import app

    for words in called(path.read_text()):
        command = get_command(app)
        while (inner := getattr(command, "commands", None)) and words and not words[0].startswith("-"):
            assert words[0] in inner, f"envwright {' '.join(words)}"
            command, words = inner[words[0]], words[1:]
        known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
        for word in words:
            name = re.match(r"\[?(--?[a-z][a-z0-9-]*)", word)
            assert not name or name[1] in known | {"--help"}, f"{command.name} {word}"


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_make_targets_exist(path: Path):
    makefile = (ROOT / "Makefile").read_text()
    named = re.findall(r"`make ([a-z][\w-]*)", path.read_text())
    named += [words[1] for line in blocks(path.read_text()) if (words := line.split())[:1] == ["make"]]
    for target in named:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path):
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    named = [*re.findall(r"\]\(([^)\s]+)\)", text), *re.findall(r'<img src="([^"]+)"', text)]
    for link in named:
        if not re.match(r"https?:|#", link):
            assert (path.parent / link.partition("#")[0]).exists(), link


@pytest.mark.parametrize("page", PAGES)
def test_pages_made_from_the_code_are_up_to_date(page: str):
    assert (ROOT / page).read_text() == PAGES[page](), "run python tests/documentation/pages.py"


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path):
    pytest.importorskip("mkdocs")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "quickstart" / "index.html").is_file()
