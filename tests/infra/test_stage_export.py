"""Exports: what other trainers get, judged by the copy of the family that goes along."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from envgen.dataset import read_dataset
from envgen.environment import Source
from envgen.errors import ConfigError, RunDirectoryError
from envgen.module import skeleton
from envgen.rows import instance_of
from envgen.sampling import sample
from flows.cli import app
from infra.config.preset import Preset, load_preset
from infra.export.write import export
from infra.runs.data import validation_instances
from infra.runs.run import Run, new_curriculum
from infra.runs.stage import Stage


def made_run(folder: Path, preset: Preset) -> Run:
    """A run as far as an export reads it: validation set, config and training data of stage 0."""
    run = Run(directory=folder / "a run 1")
    run.write(Run.curriculum, new_curriculum(run.directory.name, preset))
    held = validation_instances(preset)
    run.write(Run.validation, held, preset.prompt_style, {}, preset.family)
    ids = preset.task.reserved().union(one.id for one in held)
    instances = sample(preset.task, preset.default_config, 16, Source(0), ids)[0]
    run.stage(0).write(Stage.config, preset.default_config)
    run.stage(0).write(Stage.train, instances, preset.prompt_style, {}, preset.family)
    return run


def own_preset(folder: Path) -> Preset:
    """A preset on a generator of the user."""
    shutil.copy(skeleton.__file__, folder / "products.py")
    preset = (Path(__file__).parents[2] / "infra/config/presets/micro-sums.yaml").read_text()
    head, _, tail = preset.partition("family:")
    (folder / "own.yaml").write_text(
        f"{head}family: {{name: module, options: {{file: products.py}}}}\n"
        "default_config: {strata: {short: {data_ratio: 0.5, digits: 3}, "
        "long: {data_ratio: 0.5, digits: 5}}}\n"
        f"engine:{tail.partition('engine:')[2]}".replace("close: 0.5", "partial: 0.5")
    )
    return load_preset(str(folder / "own.yaml"))


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
about = json.loads((package / "about.json").read_text())
family = EnvironmentSpec.model_validate(about["family"]).resolved(package).load()
assert family.version == about["family_version"]
rows = [json.loads(line) for part in ("train", "validation") for line in open(package / f"{part}.jsonl")]
instances = [instance_of(family, row["instance"], "row") for row in rows]
right = family.judge(instances, [row["answer"] for row in rows])
wrong = family.judge(instances, ["nothing of the kind" for row in rows])
print(json.dumps([[one.valid for one in found] for found in (right, wrong)]))
"""


@pytest.mark.slow
def test_the_package_for_verifiers_judges_without_envwright(run: Run, tmp_path: Path) -> None:
    folder = export(run, 0, "verifiers", tmp_path / "out")
    package = folder / "a_run_1_stage_0"
    assert not list(package.rglob("__pycache__"))
    # Nothing of this checkout, nor the file of the generator where it was.
    done = subprocess.run(
        [sys.executable, "-c", JUDGE, str(package)], cwd="/", capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stderr
    right, wrong = json.loads(done.stdout)
    assert all(right)
    assert not any(wrong)
    assert len(right) == 16 + len(read_dataset(run.path(Run.validation)))
    compile((package / "taskset.py").read_text(), "taskset.py", "exec")


def test_the_rows_for_nemo_gym_hold_what_was_trained_on(run: Run, tmp_path: Path) -> None:
    folder = export(run, 0, "jsonl", tmp_path / "out")
    family, train = run.curriculum.preset.task, run.stage(0).train
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    assert [row["metadata"]["id"] for row in rows] == [one.id for one in train]
    for row, one in zip(rows, train, strict=True):
        asked = [{"role": "user", "content": family.prompt(one, run.curriculum.preset.prompt_style)}]
        assert row["responses_create_params"] == {"input": asked}
        instance = instance_of(family, row["metadata"]["instance"], "row")
        assert family.judge([instance], [row["answer"]])[0].valid
    about = json.loads((folder / "about.json").read_text())
    assert about["train_sha256"] == run.stage(0).digest(Stage.train)
    assert about["config"] == run.stage(0).config.model_dump(mode="json")


def test_the_data_sets_library_loads_the_folder(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datasets import load_dataset

    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    folder = export(run, 0, "hf", tmp_path / "out")
    loaded = load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))
    assert loaded["train"]["id"] == [one.id for one in run.stage(0).train]
    assert loaded["validation"]["id"] == [one.id for one in run.validation]
    assert not set(loaded["train"]["id"]) & set(loaded["validation"]["id"])


def test_an_export_is_replaced_and_nothing_else_is(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(run, 0, "hf", tmp_path / "out")
    export(run, 0, "jsonl", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "README.md",
        "about.json",
        "train.jsonl",
        "validation.jsonl",
    ]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(ConfigError, match="and no export"):
        export(run, 0, "hf", tmp_path / "mine")
    with pytest.raises(RunDirectoryError, match=r"stages of the run with data: stage-00$"):
        export(run, 3, "hf", tmp_path / "other")
    (tmp_path / "link").symlink_to(tmp_path / "out")
    export(run, 0, "hf", tmp_path / "link")
    assert (tmp_path / "out" / "train.parquet").exists()
    monkeypatch.chdir(tmp_path / "out")
    export(run, 0, "jsonl", Path())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "mine", "out"]


@contextmanager
def endpoint() -> Iterator[str]:
    """Streams the product of the two numbers asked for where the first is odd, else 0."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            words = asked["messages"][-1]["content"].rstrip("?").split()
            a, b = int(words[2]), int(words[4])
            text = str(a * b) if a % 2 else "0"
            chunk = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "stub"}
            said = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}
            stop = {"index": 0, "delta": {}, "finish_reason": "stop"}
            usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
            parts = [{**chunk, "choices": [said]}, {**chunk, "choices": [stop]}]
            parts.append({**chunk, "choices": [], "usage": usage})
            body = "".join(f"data: {json.dumps(part)}\n\n" for part in parts) + "data: [DONE]\n\n"
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()


@pytest.mark.slow
@pytest.mark.long
def test_the_tools_of_verifiers_validate_and_score_the_package(tmp_path: Path) -> None:
    """In an environment of its own, which `make verifiers` makes: it asks for another version of openai."""
    tools = Path(os.environ.get("ENVWRIGHT_VERIFIERS_PYTHON", ".venv-verifiers/bin/python")).absolute().parent
    if not (tools / "vf-validate").is_file():
        pytest.fail(f"{tools}: has no vf-validate; run 'make verifiers', or set ENVWRIGHT_VERIFIERS_PYTHON")
    folder = export(made_run(tmp_path, own_preset(tmp_path)), 0, "verifiers", tmp_path / "out")
    found = os.environ | {"PYTHONPATH": str(folder), "STUB_KEY": "x"}

    def tool(*words: str) -> None:
        done = subprocess.run(
            [str(tools / words[0]), *words[1:], "-o", str(tmp_path / words[0])],
            env=found,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=250,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    tool("vf-validate", "a-run-1-stage-0", "--runtime.type", "subprocess", "--rich", "False")
    [summary] = (tmp_path / "vf-validate").glob("*/summary.json")
    checks = json.loads(summary.read_text())["checks"]
    assert checks["gold"]["valid"] == checks["noop"]["valid"] == 16
    with endpoint() as url:
        where = ("--client.base-url", url, "--client.api-key-var", "STUB_KEY", "--push", "False")
        alone = ("--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess")
        tool("vf-eval", "a-run-1-stage-0", "-m", "stub", "-n", "8", *where, *alone)
    [traces] = (tmp_path / "vf-eval").glob("*/traces.jsonl")
    scored = [json.loads(line)["traces"][0] for line in traces.read_text().splitlines()]
    assert len(scored) == 8
    for trace in scored:
        first = int(trace["task"]["data"]["prompt"].split()[2])
        assert trace["rewards"]["valid"]["score"] == first % 2


def test_the_command_exports_a_run_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_run(tmp_path, load_preset("micro-sums")).directory.rename(tmp_path / "named")
    monkeypatch.setenv("ENVWRIGHT_RUNS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["export", "named", "--stage", "0", "--to", "jsonl"])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "named-stage-0-jsonl" / "train.jsonl").is_file()
    assert CliRunner().invoke(app, ["export", "named", "--stage", "0", "--to", "csv"]).exit_code == 2
