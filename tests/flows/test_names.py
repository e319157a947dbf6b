"""Names that people give to runs, comparisons and benchmarks: none leads out of the runs folder or takes what
lies there."""

from pathlib import Path

import pytest

from engineer.engineers.registry import known_engineers
from envgen.errors import ConfigError
from infra.config.preset import load_preset
from infra.config.settings import Settings, checked_name
from infra.runs.run import default_name

BAD = ["../../etc/x", "/etc/x", "a/b", ".", "..", ".serve", "-x", "a b", "a\n", "größe", "a[/]b", "n" * 129]
BAD += ["mlflow.db", "mlflow.db-journal", "MLflow.db", "mlartifacts", "benchmarks"]
NO_RUNS = ["nowhere", "n" * 300, "./" + "n" * 300, "a[/]b", "./a[/]b", "", "mlflow.db"]


@pytest.fixture
def folder(envwright, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory; the runs folder would be made in it."""
    monkeypatch.setenv("ENVWRIGHT_RUNS", "runs")
    return tmp_path


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_is_no_folder_of_ones_own_is_refused(name: str):
    with pytest.raises(ConfigError, match="for example my-run-2") as refused:
        checked_name(name)
    assert str(refused.value).startswith(f"--name {name!r:.70}")


@pytest.mark.parametrize("command", ["run micro", "run micro --dry-run", "compare micro"])
def test_every_command_checks_the_name_and_writes_nothing(envwright, command: str, folder: Path):
    said = envwright(*command.split(), "--name", "../x")
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert said.err.startswith("error: --name '../x'")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "run"),
    [("approve", "docs"), ("reject", "docs")] + [("report", run) for run in ("docs", *NO_RUNS)],
)
def test_a_run_that_is_not_there_is_answered_with_one_message(envwright, command, run, folder):
    (folder / "docs").mkdir()
    said = envwright(command, run)
    assert (said.code, said.out, said.err.count("\n"), said.err.startswith("error: ")) == (2, "", 1, True)
    if run == "docs":
        name = "results" if command == "report" else "curriculum"
        assert f"runs/docs/{name}.json: is missing" in said.err
        assert "or its path with a / in it" in said.err


def test_a_bare_name_means_the_runs_folder_and_a_path_says_that_it_is_one(folder: Path):
    (folder / "docs").mkdir()
    settings = Settings()
    assert settings.find_run("docs") == settings.run_directory("docs") == Path("runs/docs")
    assert settings.find_run("./docs") == settings.find_run(str(folder / "docs")) == folder / "docs"
    assert settings.find_run("runs/docs") == folder / "runs" / "docs"
    (settings.runs / "compared" / "random-s0").mkdir(parents=True)
    assert settings.find_run("compared/random-s0") == settings.runs / "compared" / "random-s0"
    assert settings.find_run("../docs") == folder.parent / "docs"
    assert settings.find_run(".") == folder
    with pytest.raises(ConfigError, match=r"--name '\./docs'"):
        settings.run_directory("./docs")


def test_every_default_name_is_one():
    preset = load_preset("micro").model_copy(update={"name": "p" * 60, "seed": 2**32})
    for engineer in known_engineers():
        spec = preset.engineer.model_copy(update={"name": engineer, "context": "FGHTD"})
        name = default_name(preset.model_copy(update={"engineer": spec}))
        assert checked_name(name) == name


@pytest.mark.parametrize("name", ["../x", ".x", "x/y", "", "p" * 61])
def test_the_name_of_a_preset_is_the_beginning_of_a_run_name(name: str):
    with pytest.raises(ConfigError, match=r"^name: "):
        load_preset("micro", {"name": name})
