"""`envwright doctor`: what is installed, and what is known not to work."""

import json
import sys
from pathlib import Path

import pytest

from flows.commands.doctor import TESTED, version_problems
from infra.config.versions import library_versions


def test_doctor_finds_this_installation_ready(envwright, tmp_path: Path):
    done = envwright("doctor")
    assert done.code == 0, done.out + done.err
    assert done.out.splitlines()[-1] == "ready"
    for name, number in library_versions().items():
        assert f"{name:13} {number}" in done.out
    assert "problem" not in done.out
    assert not list(tmp_path.iterdir()), "looking changes nothing"


def test_doctor_tells_programs_too(envwright, monkeypatch):
    monkeypatch.setenv("ENVWRIGHT_RUNS", "/proc/runs")
    done = envwright("doctor", "--json")
    found = json.loads(done.out)
    assert done.code == 2
    assert found["libraries"] == library_versions()
    assert "/proc/runs: cannot be written" in found["problems"][0]
    assert envwright("family", "list").out, "the next command prints on standard output again"


def test_doctor_names_the_interpreter_of_vllm(envwright, monkeypatch, tmp_path: Path):
    monkeypatch.setenv("ENVWRIGHT_VLLM_PYTHON", sys.executable)
    assert sys.executable in envwright("doctor").out.replace("\n", "")
    monkeypatch.setenv("ENVWRIGHT_VLLM_PYTHON", str(tmp_path / "python"))
    done = envwright("doctor")
    assert done.code == 2
    assert "is no interpreter" in done.out


def test_doctor_fails_where_runs_cannot_be_written(envwright, monkeypatch):
    monkeypatch.setenv("ENVWRIGHT_RUNS", "/proc/runs")
    done = envwright("doctor")
    assert done.code == 2
    assert "problem: /proc/runs: cannot be written" in done.out
    assert "ready" not in done.out


HERE = library_versions()


def test_the_installed_versions_are_the_tested_ones():
    assert version_problems(HERE) == []


@pytest.mark.parametrize(
    ("name", "number", "reason"),
    [
        ("prefect", "3.7.8", "need a FastAPI that vLLM 0.31 forbids"),
        ("prefect", "3.7.6", "tested ==3.7.7"),
        ("prefect", "4.0.0", "tested ==3.7.7"),
        ("fastapi", "0.165.0", "fails in every flow on FastAPI 0.165"),
        ("fastapi", "0.137.0", "tested <0.137"),
        ("torch", "2.12.0", "tested ==2.13.*"),
        ("torch", "2.12.1+cpu", "tested ==2.13.*"),
        ("torch", "2.14.0.dev20260901", "tested ==2.13.*"),
        ("transformers", "5.18.0", "tested >=5.10.4,<5.18"),
        ("trl", "1.17.0", "the vLLM version it was made for"),
        ("mlflow", "2.22.0", "tested ==3.17.*"),
        ("pydantic", "1.10.0", "tested ==2.*"),
    ],
)
def test_a_version_outside_of_the_tested_set_is_refused_with_the_command_that_helps(
    name: str, number: str, reason: str
):
    [problem] = version_problems({**HERE, name: number})
    assert problem.startswith(f"{name} {number} is outside of the tested {TESTED[name]}")
    assert reason in problem
    assert problem.endswith(f"pip install '{name}{TESTED[name]}'")


@pytest.mark.parametrize(
    ("name", "number"),
    [("torch", "2.13.1+cu130"), ("fastapi", "0.136.9")],
)
def test_a_version_inside_of_the_tested_set_is_fine(name: str, number: str):
    assert version_problems({**HERE, name: number}) == []


def test_a_missing_library_is_a_problem_but_vllm_is_optional():
    assert version_problems({n: v for n, v in HERE.items() if not n.startswith("vllm")}) == []
    [problem] = version_problems({n: v for n, v in HERE.items() if n != "trl"})
    assert problem == f"trl is not installed; tested: {TESTED['trl']}"
