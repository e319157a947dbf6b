"""Golden run: instances, prompts, breakdowns, proposals and rates of two small runs, and solved boards.

`golden.json` was recorded at commit e37d396, and `micro` anew when its policy and its design question
changed. A change of these values changes what every user's seed means.
"""

import hashlib
import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.envwright_command import LOG, ROOT, environment, started, stop_at_once, wait_for
from support.finished_run import FinishedRun

from envgen.dataset import environment_of
from flows.cli import main
from infra.runs.files import REPORT, RESULTS, TRAIN_DATA, TRAINING_LOG
from infra.runs.run import Run

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())
WORDS = re.compile(r"\b(maps?|map sizes?|holes?|agents?|boards?|hole_ratio|wait_ratio|\d+x\d+)\b", re.I)
CONFIG = """\
sizes:
  3: {data_ratio: 0.2, hole_ratio: 0.2, wait_ratio: 0.5}
  5: {data_ratio: 0.5, hole_ratio: 0.3, wait_ratio: 0.25}
  8: {data_ratio: 0.3, hole_ratio: 0.4, wait_ratio: 0.75}
"""


def digest(value: object) -> str:
    """Return the SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def instances(path: Path) -> dict[str, Any]:
    """Return ids and prompts of a data set: their number, the first prompt, and a digest of all."""
    table = pq.read_table(path, columns=["id", "prompt"])
    rows = list(zip(table["id"].to_pylist(), table["prompt"].to_pylist(), strict=True))
    return {"count": len(rows), "first": rows[0], "digest": digest(rows)}


def counts(breakdown: dict[str, Any]) -> dict[str, Any]:
    """Return the counted outcomes of each stratum."""
    fields = ("n", "valid", "optimal", "failures", "labels")
    return {
        name: {field: part[field] for field in fields if field in part}
        for name, part in breakdown["strata"].items()
    }


def summary(run: Path) -> dict[str, Any]:
    """Return what a run drew, measured and proposed."""

    def read(name: str) -> dict[str, Any]:
        return json.loads((run / name).read_text())

    folders = ("start", "stage-00", "stage-01")
    proposals = [read(f"{folder}/proposal.json") for folder in folders[1:]]
    return {
        "validation": instances(run / "validation.parquet"),
        "train": [instances(run / folder / "train.parquet") for folder in folders[1:]],
        "breakdowns": [counts(read(f"{folder}/breakdown.json")) for folder in folders],
        "proposals": [{key: each[key] for key in ("prompt", "rationale", "config")} for each in proposals],
    }


def random_boards(count: int = 400) -> list[dict[str, Any]]:
    """Return problem lines of random boards with 2 to 5 agents, a third of the cells holes at most."""
    rng = np.random.default_rng(20_261_127)
    lines = []
    for number in range(count):
        size, agents = int(rng.integers(3, 8)), int(rng.integers(2, 5))
        holes = rng.integers(0, max(1, min(size * size // 3, size * size - 2 * agents) + 1))
        cells = [[int(cell) // size, int(cell) % size] for cell in rng.permutation(size * size)]
        spots = cells[holes:]
        pairs = [
            {"start": spots[agent], "goal": spots[int(rng.integers(0, 2)) * agents + (agent + 1) % agents]}
            for agent in range(agents)
        ]
        lines.append({"id": str(number), "size": size, "holes": cells[:holes], "agents": pairs})
    goals = [{tuple(pair["goal"]) for pair in line["agents"]} for line in lines]
    return [line for line, unique in zip(lines, goals, strict=True) if len(unique) == len(line["agents"])]


def test_generate_and_solve_are_those_of_the_golden_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("config.yaml").write_text(CONFIG)
    Path("problems.jsonl").write_text("".join(json.dumps(line) + "\n" for line in random_boards()))
    for command in (
        "generate config.yaml --count 60 --agents 3 --seed 5 -o drawn.parquet",
        "solve problems.jsonl -o solutions.jsonl",
    ):
        monkeypatch.setattr(sys, "argv", ["envwright", "mapf", *command.split()])
        with pytest.raises(SystemExit, match="0"):
            main()
    solutions = [json.loads(line) for line in Path("solutions.jsonl").read_text().splitlines()]
    fields = ("id", "solvable", "sum_of_costs", "wait_required")
    solved = [[solution.get(field) for field in fields] for solution in solutions]
    drawn = json.loads(json.dumps(instances(Path("drawn.parquet"))))
    assert {"generate": drawn, "solve": solved} == GOLDEN["mapf"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_micro_killed_in_training_is_the_golden_run(trained: FinishedRun):
    assert json.loads(json.dumps(summary(trained.directory))) == GOLDEN["micro"]


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
    with ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "site")
    return tmp_path / "site"


@pytest.mark.slow
def test_a_wheel_has_all_files_of_the_packages(installed: Path):
    rooms = ("envgen", "policy", "engineer", "infra", "tasks", "flows")
    files = [path for room in rooms for path in (ROOT / room).rglob("*") if path.is_file()]
    needless = {"__pycache__", "deploy"}  # what builds an image is for a checkout
    names = [path.relative_to(ROOT) for path in files]
    assert not [
        str(name) for name in names if not (installed / name).exists() and not needless & {*name.parts}
    ]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sums_from_a_wheel_interrupted_in_training_are_the_golden_run(server: str, installed: Path, tmp_path):
    """They speak of nothing but sums."""
    there = {"PREFECT_API_URL": server, "PYTHONPATH": str(installed)}
    used = [sys.executable, "-c", "import flows.cli; print(flows.cli.__file__)"]
    path = subprocess.check_output(used, cwd=tmp_path, env=environment(tmp_path, **there), text=True)
    assert path.startswith(str(installed)), "not the sources"
    directory = tmp_path / "runs" / "sums"
    command = ("run", "micro-sums", "--name", "sums")
    process = started(tmp_path, *command, **there)
    step = "stage-00/work/*/checkpoint-*/files.json"
    printed = wait_for(lambda: any(directory.glob(step)), process, tmp_path)
    stop_at_once(process, signal.SIGINT, tmp_path, printed)
    process = started(tmp_path, *command, **there)
    assert process.wait(400) == 0, (tmp_path / LOG).read_text()
    printed = (tmp_path / LOG).read_text()
    assert "stage 0: generate: kept" in printed
    assert "stage 0: training continues from checkpoint-" in printed
    assert json.loads(json.dumps(summary(directory))) == GOLDEN["micro-sums"]
    run = Run(directory=directory)
    assert [stage.stage for stage in run.read(RESULTS).stages] == [0, 1]
    for number in (0, 1):
        assert environment_of(run.path(TRAIN_DATA, number)).name == "sums"
        strata = run.read(TRAINING_LOG, number)["strata"]
        assert {entry["stratum"] for step in strata for entry in step} == {"2", "3"}
    # What the policy answers is its own affair: it was taught boards.
    hidden = "|".join(f"<{tag}.*?</{tag}>" for tag in ("style", "script", "svg", "pre"))
    page = re.sub(f"{hidden}|<[^>]+>", " ", run.path(REPORT).read_text(), flags=re.S)
    assert "2 terms" in page
    for text in (printed, page):
        assert not set(WORDS.findall(text))
