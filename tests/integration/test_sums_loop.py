"""The whole loop on a family that is no board, sums of whole numbers, run from a wheel."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.envwright_command import ROOT, environment, envwright

from envgen.dataset import family_of
from infra.runs.run import Run

WORDS = re.compile(r"\b(maps?|map sizes?|holes?|agents?|boards?|hole_ratio|wait_ratio|\d+x\d+)\b", re.I)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the wheel in it, built from a copy of the sources."""
    sources = tmp_path / "sources"
    left_out = shutil.ignore_patterns(".*", "tests", "docs", "build", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, sources, ignore=left_out)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "wheel", *offline, "-w", tmp_path, sources], check=True)
    [wheel] = tmp_path.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", tmp_path / "site", wheel], check=True)
    return tmp_path / "site"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_loop_runs_on_sums_and_speaks_of_nothing_else(server: str, installed: Path, tmp_path: Path):
    there = {"PREFECT_API_URL": server, "PYTHONPATH": str(installed)}
    used = [sys.executable, "-c", "import flows.cli; print(flows.cli.__file__)"]
    found = subprocess.check_output(used, cwd=tmp_path, env=environment(tmp_path, **there), text=True)
    assert found.startswith(str(installed)), "not the sources"
    printed = envwright(tmp_path, "run", "micro-sums", **there).stdout
    run = Run(directory=next((tmp_path / "runs").glob("micro-sums-*")))
    assert [stage.stage for stage in run.results.stages] == [0, 1]
    ids = {one.id for one in run.validation}
    for number in (0, 1):
        stage = run.stage(number)
        assert family_of(stage.path(type(stage).train)).name == "sums"
        assert {one.stratum for one in stage.train} == {"2", "3"}
        assert not ids & {one.id for one in stage.train}
        assert list(stage.breakdown.strata) == ["2", "3"]
        assert stage.breakdown.overall.labels["carry"].n == len(run.validation) / 2
        assert {entry["stratum"] for step in stage.train_log["strata"] for entry in step} == {"2", "3"}
    assert run.stage(1).config == run.stage(0).proposal.config
    assert run.stage(0).proposal.config.strata["2"]["digits"] == 1, (
        "nothing is solved, so that sums get shorter"
    )
    # What the policy answers is its own affair: it was taught boards.
    hidden = "|".join(f"<{tag}.*?</{tag}>" for tag in ("style", "script", "svg", "pre"))
    page = re.sub(f"{hidden}|<[^>]+>", " ", run.path(Run.report).read_text(), flags=re.S)
    assert "2 terms" in page
    for text in (printed, page):
        assert not set(WORDS.findall(text))
