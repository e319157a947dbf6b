"""The whole loop, simulated and trained, against a real Prefect server and a real MLflow store."""

import json
from pathlib import Path
from typing import Any

import pytest
from prefect import flow
from prefect.settings import PREFECT_API_URL, temporary_settings
from support.envwright_command import envwright
from support.finished_run import FinishedRun

from envgen.breakdown import Breakdown
from envgen.errors import EndedError, ModelError
from infra.config.preset import load_preset
from infra.runs.files import GATE, ROLLOUTS
from infra.runs.run import Run
from policy.checkpoints import SIMULATED_STATE
from tasks.step import step

pytestmark = pytest.mark.timeout(900)


def test_a_configured_server_sees_the_curriculum_its_stages_and_the_log(finished: FinishedRun):
    states = {run["name"]: run["state"]["type"] for run in finished.flow_runs}
    assert states == dict.fromkeys([finished.name, "stage 0 · frontier", "stage 1 · frontier"], "COMPLETED")
    below = [run["tags"] for run in finished.flow_runs if run["parent_task_run_id"]]
    assert len(below) == 2
    assert all("envwright" in tags for tags in below), "the reaper looks after them"
    assert any("frontier proposes" in message for message in finished.messages), finished.messages


def test_a_finished_run_is_not_run_again(finished: FinishedRun, server: str, tmp_path: Path):
    run = finished.copy_to(tmp_path)
    (run / "stage-00" / "checkpoint" / SIMULATED_STATE).write_bytes(b"nobody reads it")
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()}
    store = f"sqlite:///{finished.folder / 'runs' / 'mlflow.db'}"
    there = {"MLFLOW_TRACKING_URI": store, "PREFECT_API_URL": server}
    said = envwright(tmp_path, "run", "simulated", "--stages", 2, "--json", **there)
    assert json.loads(said.stdout) == json.loads((finished.directory / "results.json").read_text())
    changed = {path for path, when in before.items() if path.stat().st_mtime_ns != when}
    assert changed == {run / "logs" / "run.log"}


@pytest.mark.slow
def test_the_notebook_of_the_docs_reads_a_run(trained: FinishedRun, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ENVWRIGHT_RUN", str(trained.directory))
    docs, names = Path(__file__).parents[2] / "docs", {}
    notebook = json.loads((docs / "run-directory.ipynb").read_text())
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    results = json.loads((trained.directory / "results.json").read_text())
    found = [results["start"], *(stage["breakdown"] for stage in results["stages"])]
    overall = [Breakdown.model_validate(one).overall for one in found]
    assert list(names["rates"].index) == ["start", "stage 0", "stage 1"]
    assert list(names["rates"]["valid"]) == [one.valid_rate.value for one in overall]
    counted = names["breakdown"].groupby("policy", sort=False)[["n", "valid"]].sum()
    assert counted.values.tolist() == [[one.n, one.valid] for one in overall]
    assert names["changes"].sum() == overall[0].n
    assert list(names["training"].loc["stage 0", "step"]) == [1, 2, 3, 4]
    asked = [stage["proposal"]["config"] for stage in results["stages"]]
    assert list(names["proposals"]["proposed"]) == asked


@pytest.mark.slow
def test_a_checkpoint_is_a_model_of_transformers_that_answers_as_in_the_evaluation(trained: FinishedRun):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source, preset = trained.directory / "stage-01" / "checkpoint", load_preset("micro")
    model: Any = AutoModelForCausalLM.from_pretrained(source)
    tokenizer: Any = AutoTokenizer.from_pretrained(source)
    first = Run(directory=trained.directory).read(ROLLOUTS, 1)[0]
    chat = [{"role": "user", "content": preset.task.prompt(first.instance, "compact")}]
    wanted = {"add_generation_prompt": True, "return_tensors": "pt", "return_dict": True}
    asked = tokenizer.apply_chat_template(chat, **wanted)
    answer = model.generate(**asked, max_new_tokens=preset.max_answer_tokens, do_sample=False)
    text = tokenizer.decode(answer[0][asked["input_ids"].shape[1] :], skip_special_tokens=True)
    assert text.strip() == first.completion.strip()


@pytest.mark.parametrize(("error", "times"), [(EndedError, 2), (ModelError, 1)])
def test_a_step_whose_model_ended_is_tried_once_more(server: str, tmp_path: Path, error: type, times: int):
    tried = []

    @step("gate", GATE)
    def ends(run: Run, stage: int) -> None:
        tried.append(stage)
        raise error("the process was killed")

    run = Run(directory=tmp_path, chosen=load_preset("simulated"))
    with temporary_settings({PREFECT_API_URL: server}), pytest.raises(error, match="was killed"):
        flow(lambda: ends(run, 0), name="steps")()
    assert tried == [0] * times
