"""The environment `verifiers`: it scores as the library does, and refuses what has several turns."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import envgen
from envgen.environment import Source
from envgen.errors import ConfigError, ShortageError
from envgen.registry import EnvironmentSpec
from envgen.table import verifiers
from envgen.table.verifiers import VerifiersEnvironment, find_python
from envgen.table.verifiers_tasks import ENTRY, MESSAGES
from flows.cli import app
from infra.config.preset import load_preset

LEVELS = {"column": "level", "order": ["low", "high"]}
QUIZ = """
import verifiers.v1 as vf
from pydantic import BaseModel

class QuizData(vf.TaskData):
    answer: str
    level: str

class QuizTask(vf.Task[QuizData]):
    @vf.reward(weight=0.5)
    async def right(self, trace: vf.Trace) -> float:
        return vf.verify_boxed_math_answer(trace.last_reply, self.data.answer)

    @vf.reward(weight=0.3)
    async def parts(self, task, trace) -> dict:
        return {"words": 1 / max(1, len(trace.last_reply.split())), "turns": trace.num_turns / 3}

    @vf.reward(weight=0.1)
    async def kind(self, trace: vf.Trace) -> float:
        roles = [message.role for message in trace.messages]
        return float(roles == ["system", "user", "assistant"] and self.data.prompt in trace.transcript)

    @vf.stop
    async def answered(self, trace: vf.Trace) -> bool:
        return trace.num_turns >= 1

    @vf.metric
    async def length(self, trace: vf.Trace) -> float:
        return len(trace.last_reply)

class Config(vf.TasksetConfig):
    first: int = 0

class QuizTaskset(vf.Taskset[QuizTask, Config]):
    def load(self):
        for n in range(self.config.first, 40):
            words = {"prompt": f"{n}/2?", "system_prompt": "Short.", "answer": f"{n}/2"}
            data = QuizData(**words, level=("low", "high")[n // 20])
            yield QuizTask(data, self.config.task)

__all__ = ["QuizTaskset"]
"""
REPLAY = """
import asyncio, json, sys
from pathlib import Path
import verifiers.v1 as vf
from verifiers.v1.cli.output import save_config
from verifiers.v1.cli.replay import ReplayConfig, run_replay
from verifiers.v1.graph import prepare_turn
from verifiers.v1.utils.trace_store import append_trace

folder, taskset = Path(sys.argv[1]), json.loads(sys.argv[2])
answers = json.loads(Path(folder, "answers.json").read_text())
env = vf.load_environment(vf.resolve_env_config({"taskset": taskset}))
save_config(env.config, folder)
tasks, config = list(env.taskset), ReplayConfig(taskset=taskset, rich=False)
saved = json.loads(next(folder.glob("configs/resolved/*.json")).read_text())
next(folder.glob("configs/resolved/*.json")).write_text(json.dumps({"env": saved}))
for row, answer in answers:
    data, message = tasks[row].data, vf.AssistantMessage(content=answer)
    kind, agent = type(tasks[row]).__name__, vf.AgentInfo(config=vf.AgentConfig())
    task = vf.TraceTask(type=kind, data=data)
    trace = vf.Trace(task=task, agent=agent)
    prompt = [vf.SystemMessage(content=data.system_prompt), vf.UserMessage(content=data.prompt)]
    response = vf.Response(id="r", created=0, model="m", message=message, finish_reason="stop")
    prepare_turn(trace, prompt).commit(response)
    trace.ok = True
    asyncio.run(append_trace(folder, trace, asyncio.Lock()))
traces = asyncio.run(run_replay(config, folder, folder / "replay"))
assert all(trace.ok for trace in traces)
print("SCORES", json.dumps([trace.reward for trace in traces]))
"""


@pytest.fixture(scope="module")
def python() -> str:
    try:
        return find_python()
    except ConfigError:
        pytest.skip("no interpreter has verifiers 0.4: set ENVWRIGHT_VERIFIERS_PYTHON")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, python: str) -> Path:
    folder = tmp_path_factory.mktemp("quiz")
    (folder / "quiz.py").write_text(QUIZ)
    return folder


@pytest.fixture(scope="module")
def quiz(folder: Path) -> Iterator[VerifiersEnvironment]:
    options = {"source": "./quiz.py", "strata": LEVELS, "threshold": 0.8}
    environment = EnvironmentSpec(name="verifiers", options=options).resolved(folder).load()
    assert isinstance(environment, VerifiersEnvironment)
    yield environment
    environment.worker.close()


def replayed(folder: Path, python: str, taskset: dict[str, Any], pairs: list[tuple[int, str]]) -> list[float]:
    """Return what the library's own evaluation, replayed over saved traces, scores answers to rows."""
    (folder / "answers.json").write_text(json.dumps(pairs))
    command = [python, "-c", REPLAY, str(folder), json.dumps(taskset)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=400)
    assert "SCORES" in done.stdout, done.stderr
    return json.loads(done.stdout.rpartition("SCORES")[2])


@pytest.mark.slow
def test_scores_are_those_of_the_library(quiz: VerifiersEnvironment, folder: Path, python: str) -> None:
    instances = [*quiz.rows["low"], *quiz.rows["high"]]
    forms = ("\\boxed{{{}/2}}", "It is \\boxed{{\\frac{{{}}}{{2}}}}", "{}", "\\boxed{{1}}\n\n{}", "a {} b c")
    pairs = [(place, form.format(place)) for place in range(40) for form in forms]
    verdicts = quiz.judge([instances[place] for place, _ in pairs], [answer for _, answer in pairs])
    scores = replayed(folder, python, {"id": "quiz"}, pairs)
    assert [verdict.terms["partial"] for verdict in verdicts] == pytest.approx(scores, abs=1e-12)
    assert [verdict.valid for verdict in verdicts] == [score >= 0.8 - 1e-9 for score in scores]
    assert len({round(score, 6) for score in scores}) == 6


@pytest.mark.slow
def test_an_example_of_the_library_scores_as_its_own_evaluation(python: str, tmp_path: Path) -> None:
    code = "import importlib.util as util, sys; sys.exit(not all(map(util.find_spec, sys.argv[1:])))"
    if subprocess.run([python, "-c", code, "reverse_text", "datasets"]).returncode:
        pytest.skip("the interpreter lacks reverse-text of verifiers' repository: docs/guides/verifiers.md")
    texts = [f"{number} cats saw {'a big ' * (number % 4)}dog." for number in range(40)]
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "train.jsonl").write_text("".join(json.dumps({"prompt": t}) + "\n" for t in texts))
    config: dict[str, Any] = {"dataset_name": str(tmp_path / "texts")}
    options = {"source": "reverse-text", "config": config, "strata": {"column": "idx", "bins": [0, 20, 40]}}
    options |= {"answer": "<reversed_text>{answer}</reversed_text>", "limits": {"start_seconds": 400}}
    environment = EnvironmentSpec(name="verifiers", options=options).resolved().load()
    assert isinstance(environment, VerifiersEnvironment)
    instances = [*environment.rows["0_to_20"], *environment.rows["20_to_40"]]
    forms = ("{}", "[{}]", "[\n{} ] ok", "[{}", "[tac{}]")
    tags = [form.replace("[", "<reversed_text>").replace("]", "</reversed_text>") for form in forms]
    pairs = [(n, form.format(text[::-1])) for n, text in enumerate(texts) for form in tags]
    verdicts = environment.judge([instances[n] for n, _ in pairs], [answer for _, answer in pairs])
    environment.worker.close()
    scores = replayed(tmp_path, python, {"id": "reverse-text", **config}, pairs)
    assert len(scores) == 200
    assert [verdict.terms["partial"] for verdict in verdicts] == pytest.approx(scores, abs=1e-12)
    assert [verdict.valid for verdict in verdicts] == [score == 1 for score in scores]
    assert instances[0].answer == "<reversed_text>.god was stac 0</reversed_text>"
    assert sum(verdict.valid for verdict in verdicts) == 80


OBSTACLES = {
    "tools": "    @classmethod\n    def toolsets(cls, config):\n        return [1]",
    "a container": "    NEEDS_CONTAINER = True",
    "several turns": "    @vf.stop\n    async def done(self, trace: vf.Trace) -> bool:\n        return False",
    "a running program": "    @vf.reward\n    async def ran(self, runtime) -> float:\n        return 1.0",
}


@pytest.mark.slow
def test_more_than_one_question_and_answer_is_refused(folder: Path, python: str) -> None:
    mark, endless = "class Config(", "    INFINITE = True\n\n    def load"
    texts = [QUIZ.replace(mark, f"{code}\n\n{mark}") for code in OBSTACLES.values()]
    texts.append(QUIZ.replace('f"{n}/2?"', "None"))
    texts.append(QUIZ.replace("answered(self, trace: vf.Trace)", "a(self, reply: vf.Response)"))
    for number, text in enumerate([*texts, QUIZ.replace("    def load", endless)]):
        (folder / f"bad{number}.py").write_text(text)
    cases = [*((f"bad{number}", {}) for number in range(len(texts) + 1)), ("quiz", {"split": 1})]
    code = (
        "import sys, json\nfrom envgen.table.verifiers_tasks import Tasks\n"
        "for name, config in json.loads(sys.argv[1]):\n"
        f"    try:\n        Tasks(f'{folder}/{{name}}.py', config, None, None)\n"
        "    except ValueError as error:\n        print(error)\n"
    )
    command = [python, "-c", code, json.dumps(cases)]
    root = Path(envgen.__file__).parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=200)
    expected = "expected one question and one answer, scored by its text alone"
    obstacles = [f"task 0 needs {obstacle}; {expected}" for obstacle in (*OBSTACLES, *["several turns"] * 2)]
    *refused, endless, unknown = done.stdout.splitlines()
    assert refused == obstacles, done.stderr
    assert endless == "its tasks have no end; set environment.options.limit"
    assert unknown.startswith("environment.options.config: taskset.split: Extra inputs are not permitted")


@pytest.mark.slow
def test_new_writes_tasks_and_a_preset_for_them(
    python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(verifiers.PYTHON, python)
    monkeypatch.chdir(tmp_path)
    words = ["new", "environment", "riddle_rows", "--kind", "verifiers"]
    assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0
    task = load_preset("./riddle_rows.yaml").task
    assert [task.capacity(name) for name in ("easy", "medium", "hard")] == [20] * 3
    assert task.longest_prompt("plain").startswith("What is 101 + 99")
    task.worker.close()


class Replies:
    """The process of a taskset with 1,200 rows; an answer is its own score."""

    source = "quiz-v1"

    def __init__(self) -> None:
        asked = [[{"role": "user", "content": f"{n % 1_199}?"}] for n in range(1_200)]
        self.rows: list[dict[str, Any]] = [
            {"level": "ab"[n % 2], "answer": "1", MESSAGES: turns, ENTRY: {"row": n, "digest": str(n)}}
            for n, turns in enumerate(asked)
        ]

    def call(self, method: str, *arguments: Any) -> Any:
        if method == "describe":
            return {"sha256": "0", "columns": ["level", "answer"], "rows": len(self.rows)}
        if method == "rows":
            return self.rows[arguments[0] : arguments[0] + verifiers.PAGE]
        return float(arguments[1])

    def close(self) -> None:
        pass


@pytest.fixture
def replies(monkeypatch: pytest.MonkeyPatch) -> Replies:
    replies = Replies()
    monkeypatch.setattr(verifiers.Options, "worker", lambda *_: replies)
    return replies


def opened(**options: Any) -> VerifiersEnvironment:
    options = {"source": "quiz-v1", "strata": {"column": "level"}, **options}
    return VerifiersEnvironment(verifiers.Options.model_validate(options))


def test_rows_are_grouped_and_a_reward_above_the_threshold_is_valid(replies: Replies) -> None:
    environment = opened(threshold=0.5, answer="<a>{answer}</a>")
    assert {row.answer for row in environment.rows["a"]} == {"<a>1</a>"}
    assert environment.described.rows == (("a", 600), ("b", 599))
    assert environment.described.duplicates == 1
    instances = environment.generate("b", {}, 599, Source(0), frozenset()).instances
    assert len({instance.id for instance in instances}) == 599
    with pytest.raises(ShortageError, match="only 599 of 600 rows exist"):
        environment.generate("b", {}, 600, Source(0), frozenset())
    answers = ["0", "0.4", "0.5", "1", "1.5", "-1", " "]
    verdicts = environment.judge(instances[:7], answers)
    assert [verdict.valid for verdict in verdicts] == [False, False, True, True, False, False, False]
    assert [verdict.terms["partial"] for verdict in verdicts[:4]] == [0, 0.4, 0.5, 1]
    assert [verdict.category for verdict in verdicts[4:]] == ["scorer_failed", "scorer_failed", "no_answer"]
    replies.rows[0]["level"] = "b"
    with pytest.raises(ConfigError, match="quiz-v1: the rows changed since the run began"):
        VerifiersEnvironment(environment.options).longest_prompt("plain")


def test_bad_options_are_named(replies: Replies, monkeypatch: pytest.MonkeyPatch) -> None:
    def problem(**options: Any) -> str:
        with pytest.raises(ConfigError) as caught:
            EnvironmentSpec(name="verifiers", options={"source": "quiz-v1", **options}).resolved()
        return str(caught.value)

    assert "column 'kind' is missing; found ['level', 'answer']" in problem(strata={"column": "kind"})
    replies.rows[7]["answer"] = ""
    assert "1 rows cannot be used: task 7: answer is empty" in problem(answer="answer")
    monkeypatch.undo()
    monkeypatch.setattr(verifiers, "_has_verifiers", lambda python: False)
    monkeypatch.setenv(verifiers.PYTHON, "/no/python")
    message = problem()
    assert "/no/python has no verifiers 0.4; make an interpreter for it" in message
    assert "\n" not in message
