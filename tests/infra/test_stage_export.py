"""Exports: what other trainers get, judged by the copy of the environment that goes along."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from envgen.dataset import read_dataset
from envgen.environment import Source
from envgen.errors import ConfigError, RunDirectoryError
from envgen.module import skeleton
from envgen.sampling import sample
from flows.cli import app
from infra.config.preset import Preset, load_preset
from infra.export.write import export
from infra.runs.files import CONFIG, CURRICULUM, TRAIN_DATA, VALIDATION, Curriculum
from infra.runs.run import Run


def made_run(folder: Path, preset: Preset) -> Run:
    """A run as far as an export reads it: validation set, config and training data of stage 0."""
    run = Run(directory=folder / "a run 1")
    run.write(CURRICULUM, Curriculum(name=run.name, preset=preset))
    held = preset.validation.draw(preset.task)
    run.write(VALIDATION, held, None, preset.prompt_style, {}, preset.environment)
    ids = preset.task.reserved().union(one.id for one in held)
    instances = sample(preset.task, preset.default_config, 16, Source(0), ids)[0]
    run.write(CONFIG, preset.default_config, 0)
    run.write(TRAIN_DATA, instances, 0, preset.prompt_style, {}, preset.environment)
    return run


def own_preset(folder: Path) -> Preset:
    """A preset on a generator of the user."""
    file = shutil.copy(skeleton.__file__, folder / "products.py")
    strata = {"short": {"data_ratio": 0.5, "digits": 3}, "long": {"data_ratio": 0.5, "digits": 5}}
    own = {"environment": {"name": "module", "options": {"file": str(file)}}, "validation": {"instances": 4}}
    own |= {"default_config": {"strata": strata}, "rewards": {"format": 0.1, "valid": 1.0, "optimal": 0.0}}
    return load_preset("micro-sums", own)


@pytest.fixture(scope="module", params=["micro", "micro-sums", "own"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp(request.param)
    preset = own_preset(folder) if request.param == "own" else load_preset(request.param)
    return made_run(folder, preset)


JUDGE = """
import json, sys
from pathlib import Path
package = Path(sys.argv[1])
sys.path.insert(0, str(package / "vendor"))
import envgen
from envgen.registry import EnvironmentSpec
from envgen.rows import instance_of
assert Path(envgen.__file__).is_relative_to(package)
compile((package / "taskset.py").read_text(), "taskset.py", "exec")
about = json.loads((package / "about.json").read_text())
environment = EnvironmentSpec.model_validate(about["environment"]).resolved(package).load()
assert environment.version == about["environment_version"]
rows = [json.loads(line) for part in ("train", "validation") for line in open(package / f"{part}.jsonl")]
instances = [instance_of(environment, row["instance"], "row") for row in rows]
right = environment.judge(instances, [row["reference"] for row in rows])
wrong = environment.judge(instances, ["nothing of the kind" for row in rows])
print(json.dumps([[one.valid for one in found] for found in (right, wrong)]))
"""


@pytest.mark.slow
def test_the_package_for_verifiers_judges_without_envwright(run: Run, tmp_path: Path) -> None:
    folder = export(run, 0, "verifiers", tmp_path / "out")
    package = folder / "a_run_1_stage_0"
    assert not list(package.rglob("__pycache__"))
    # Nothing of this checkout, nor the file of the generator where it was.
    judged = subprocess.check_output([sys.executable, "-c", JUDGE, str(package)], cwd="/", timeout=250)
    right, wrong = json.loads(judged)
    assert all(right)
    assert not any(wrong)
    assert len(right) == 16 + len(read_dataset(run.path(VALIDATION)))


def test_the_data_sets_library_loads_the_folder(run: Run, tmp_path, monkeypatch):
    from datasets import load_dataset

    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    folder = export(run, 0, "hf", tmp_path / "out")
    loaded = load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))
    assert loaded["train"]["id"] == [one.id for one in run.read(TRAIN_DATA, 0)]
    assert loaded["validation"]["id"] == [one.id for one in run.read(VALIDATION)]
    about = json.loads((folder / "about.json").read_text())
    assert about["train_sha256"] == run.digest(TRAIN_DATA, 0)
    assert not set(loaded["train"]["id"]) & set(loaded["validation"]["id"])


def test_a_folder_that_exists_and_a_stage_without_data_are_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(ConfigError, match="mine: exists already; choose another -o"):
        export(run, 0, "hf", tmp_path / "mine")
    with pytest.raises(RunDirectoryError, match=r"stages of the run with data: stage-00$"):
        export(run, 3, "hf", tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_the_command_exports_a_run_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preset = load_preset("micro-sums", {"chat_template_kwargs.enable_thinking": False})
    made_run(tmp_path, preset).directory.rename(tmp_path / "named")
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["export", "named", "--stage", "0", "--to", "hf"])
    assert done.exit_code == 0, done.output
    folder = tmp_path / "named-stage-0-hf"
    assert (folder / "train.parquet").is_file()
    about = json.loads((folder / "about.json").read_text())
    assert about["chat_template_kwargs"] == {"enable_thinking": False}
    assert CliRunner().invoke(app, ["export", "named", "--stage", "0", "--to", "csv"]).exit_code == 2
