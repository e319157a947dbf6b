"""Every shell command of README.md and the docs is run, made small."""

import runpy
import shutil
import subprocess
import sys
from contextlib import ExitStack, redirect_stdout
from functools import cache
from io import StringIO
from itertools import chain
from pathlib import Path

import pytest
from documentation import shell_lines as docs
from support.envwright_serve import person, serving

RUNNABLE = [
    page for page in docs.PAGES if any(not docs.left_out(page, line) for line in docs.shell_lines(page))
]


def shell(folder: Path, command: str, code: int = 0) -> str:
    """What a shell prints that runs a command in a folder, to its end with this exit code."""
    variables, pipes = person() | {"COLUMNS": "120"}, {"stdin": subprocess.DEVNULL, "capture_output": True}
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=variables, text=True, timeout=900, **pipes)
    assert done.returncode == code, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@cache
def help_of(program: str, *words: str) -> str:
    """What a command says of itself."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as said:
        patch.setattr(sys, "argv", [program, *words, "--help"])
        patch.setenv("COLUMNS", "120")
        with pytest.raises(SystemExit, match="0"):
            runpy.run_module(program, run_name="__main__")
    return said.getvalue()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs folder with the run of the demo, which many pages are about, made small."""
    folder = tmp_path_factory.mktemp("base")
    shell(folder, f"envwright run tiny {docs.FEW}")
    return folder / "runs"


@pytest.fixture
def folder(tmp_path: Path, runs: Path) -> Path:
    """A folder as a person has it after the demo: the run."""
    shutil.copytree(runs, tmp_path / "runs")
    return tmp_path


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.name)
def test_the_commands_of_a_page_do_what_they_say(page: Path, folder: Path):
    for name, text in docs.named_files(page).items():
        (folder / name).write_text(text)
    with ExitStack() as stack:
        login = ""
        for line in docs.shell_lines(page):
            if docs.left_out(page, line):
                continue
            command, code = docs.smaller(line)
            if command == "envwright serve":
                stack.enter_context(serving(folder))
                login = ". runs/.serve/env; "
            else:
                shell(folder, login + command, code)


@pytest.mark.slow
@pytest.mark.parametrize("page", docs.PAGES, ids=lambda page: page.name)
def test_options_of_prefect_and_mlflow_are_known_to_their_help(page: Path):
    for line in filter(lambda line: docs.left_out(page, line), docs.shell_lines(page)):
        for program in ("prefect", "mlflow"):
            for arguments in docs.calls(line, program):
                options = [word.partition("=")[0] for word in arguments if word.startswith("-")]
                words = arguments[: 2 if program == "prefect" else 1]
                said = help_of(program, *words)
                assert not [option for option in options if option not in said], line


def test_nothing_is_left_out_or_made_smaller_that_the_docs_do_not_say():
    lines = [*chain(*map(docs.shell_lines, docs.PAGES))]
    for begin in chain(docs.SMALLER, *(begins for _, *begins in docs.LEFT_OUT)):
        assert any(line.startswith(begin) for line in lines), begin
    assert set(docs.ELSEWHERE) <= {page.name for page in docs.PAGES}
