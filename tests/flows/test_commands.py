"""The command line as a whole: its commands, their help, and how they refuse what they are told."""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from typer.main import get_command

from flows.cli import app
from infra.config.versions import code_version

COMMANDS = get_command(app).commands  # type: ignore[attr-defined]
INNER = [("new", "preset"), ("new", "environment"), ("engineers", "bench")]
INNER += [("mapf", name) for name in ("generate", "solve", "verify", "render")]


def test_the_installed_script_is_the_command_line_and_completes_commands(tmp_path: Path):
    [entry] = [e for e in entry_points(group="console_scripts") if e.name == "envwright"]
    assert entry.value == "flows.cli:main"
    words = {"_ENVWRIGHT_COMPLETE": "complete_bash", "COMP_WORDS": "envwright ben", "COMP_CWORD": "1"}
    script = Path(sys.executable).with_name("envwright")
    done = subprocess.run([script], cwd=tmp_path, env=os.environ | words, capture_output=True, text=True)
    assert done.stdout.split() == ["benchmark"], done


def test_every_one_of_seventeen_commands_says_what_it_does_and_shows_an_example(envwright):
    names = "run compare benchmark engineers runs show report approve reject serve new check warmstart export"
    assert set(COMMANDS) == {*names.split(), "mapf", "presets", "profile"}
    pages = {group: envwright(*group, "--help").out for group in ((), ("new",), ("mapf",), ("engineers",))}
    for path in [(name,) for name in COMMANDS] + INNER:
        command = get_command(app)
        for name in path:
            command = command.commands[name]  # type: ignore[attr-defined]
        assert f" {path[-1]} " in pages[path[:-1]]
        assert command.help.split("\n")[0]
        text = " ".join(command.help.replace("`", "").split())
        assert f"Example: envwright {' '.join(path)} " in f"{text} "


def test_the_version_is_the_one_that_a_report_names(envwright):
    version, *libraries = envwright("--version").out.splitlines()
    assert version == f"envwright {code_version()}"
    assert {"torch", "trl"} <= {line.split()[0] for line in libraries}


USAGE = [
    ("frobnicate", "No such command 'frobnicate'"),
    ("mapf generate config.yaml --count many -o data.parquet", "Invalid value for '--count'"),
    ("benchmark tiny --style haiku", "style: 'haiku' is none of board, compact"),
    ("serve --prefect-port 70000", "--prefect-port"),
    # One of a kind; all mistakes are in tests/infra.
    ("run tinny", "tinny: no such preset; did you mean tiny? the shipped ones are"),
    ("run micro --context V9", "error: engineer.context: Value error, context 'V9': expected one of V1"),
    ("run micro --stages 0", "stages: Input should be greater than or equal to 1"),
    ("compare micro --seeds 0,-1", "seeds.1: Input should be greater than or equal to 0 (got '-1')"),
    ("benchmark http://host/v1?key=abc#m", "expected an address as http://localhost:8000/v1, without user,"),
    ("benchmark tiny --max-model-len 4096", "max_model_len: 4096 is read by the backend vllm only"),
    ("benchmark http://localhost:1/v1#m --backend vllm", "backend: is read where a model is run here"),
]


@pytest.mark.parametrize(("line", "complaint"), USAGE)
def test_what_cannot_be_done_is_explained_and_leaves_nothing_behind(refused, tmp_path, line, complaint):
    refused(line.split(), complaint)
    assert list(tmp_path.iterdir()) == []


def test_a_misspelt_run_is_answered_with_the_nearest_names(refused, tmp_path: Path):
    for name in ("micro-checkpoint-V6-s0", "other"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    for command in ("show", "report", "approve"):
        refused([command, "micro-checkpoint-V6W-s0"], "no such run; did you mean 'micro-checkpoint-V6-s0'?")
