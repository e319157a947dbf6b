"""A user's generator file: what it draws, and what happens when it misbehaves."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from envgen.environment import FaultCount, Instance, Source
from envgen.errors import ConfigError, DataError
from envgen.module import skeleton
from envgen.module.environment import ModuleEnvironment, Options
from envgen.module.user_file import Generator
from envgen.registry import EnvironmentSpec
from envgen.rows import instance_of, instance_row
from flows.cli import app

SKELETON = Path(skeleton.__file__).read_text()
GENERATE = "    a, b = rng.randrange(low, high), rng.randrange(low, high)\n"
SCORE = "    said = answer.strip()\n"
IN_TURN = ('    return f"What is', '    a, b = rng.choice([(12, 34), (34, 12)])\n    return f"What is')


def written(folder: Path, *replacements: Iterable[str]) -> Path:
    """Write the skeleton with some of its lines replaced."""
    text = SKELETON
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    (folder / "made.py").write_text(text)
    return folder / "made.py"


def loaded(file: Path) -> ModuleEnvironment:
    environment = EnvironmentSpec(name="module", options={"file": str(file)}).resolved().load()
    assert isinstance(environment, ModuleEnvironment)
    return environment


def changed(folder: Path, *replacements: Iterable[str], **limits: float) -> ModuleEnvironment:
    """Return the environment of a changed skeleton; it is described in this process, which is quick."""
    file = written(folder, *replacements)
    options = {"file": file, "limits": limits, "described": Generator(str(file)).describe()}
    return ModuleEnvironment(Options.model_validate(options))


def draw(made: ModuleEnvironment, count: int = 20, digits: float = 2.0, seed: int = 0) -> list[Instance]:
    return made.generate("short", {"digits": digits}, count, Source(seed), frozenset()).instances


def wait_for_end(process: int) -> None:
    deadline = time.monotonic() + 10
    while Path(f"/proc/{process}").exists() and " Z " not in Path(f"/proc/{process}/stat").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def products(tmp_path_factory: pytest.TempPathFactory) -> ModuleEnvironment:
    return loaded(written(tmp_path_factory.mktemp("products")))


def test_strata_and_knobs_come_from_the_file(products: ModuleEnvironment) -> None:
    assert products.space.names == ("short", "long")
    (digits,) = products.space["long"].knobs
    assert (digits.low, digits.high, digits.step) == (4, 6, 1)
    assert digits.description == "the digits of each factor"
    assert products.space.identity == "canonical"


def test_a_draw_depends_on_its_source_and_splits_integer_knobs(products: ModuleEnvironment) -> None:
    instances = draw(products, 40, 2.5)
    assert instances == draw(products, 40, 2.5) != draw(products, 40, 2.5, seed=1)
    assert len({instance.id for instance in instances}) == 40
    digits = [len(str(instance.payload["entry"]["metadata"]["factors"][0])) for instance in instances]
    assert (digits.count(2), digits.count(3)) == (20, 20)


def test_identity_of_the_file_joins_mirrored_questions(tmp_path: Path) -> None:
    # Annotations that are texts, also of dataclasses, are looked up in the module.
    pair = "@dataclass\nclass Pair:\n    first: int = 1\n"
    imports = f"from __future__ import annotations\nfrom dataclasses import dataclass\n{pair}"
    for extra, ids in (((), 1), ((("def identity(", "def unused("),), 2)):
        before = ("from random import", f"{imports}from random import")
        environment = changed(tmp_path, before, IN_TURN, *extra)
        assert len({environment.entry("short", {"digits": 2}, seed).id for seed in range(20)}) == ids
    assert environment.space.identity == "textual"


def test_references_are_valid_also_tagged_and_from_a_data_set(products: ModuleEnvironment) -> None:
    rows = [json.loads(json.dumps(instance_row(products, one, "tagged"))) for one in draw(products)]
    assert all("<answer>" in row["prompt"] for row in rows)
    instances = [instance_of(products, row, "row") for row in rows]
    for completion in ("{}", "I think 5.\n<answer>1</answer> no, <answer> {} </answer>"):
        verdicts = products.judge(instances, [completion.format(one.answer) for one in instances])
        assert all(verdict.valid for verdict in verdicts)


@settings(max_examples=50, deadline=None)
@given(st.text(st.characters(exclude_categories=()), max_size=200))
def test_hostile_answers_get_a_category(products: ModuleEnvironment, text: str) -> None:
    verdict, long = products.judge(draw(products, 1) * 2, [text, "9" * 10_000_000])
    assert verdict.category in {"no_answer", "wrong"}
    assert long.category == "no_answer"


GENERATORS = (
    ("import re; re.match('(a*)*b', 'a' * 40)", "no answer within 2 s"),
    ("import os; os._exit(7)", "ended with exit code 7"),
    ("x = bytearray(1 << 40)", r"MemoryError: +\(made.py, line \d+, in generate\)"),
    ("return 'What?', 5", "its answer is 5; expected a text"),
    ("return 'What?'", r"expected \(question, answer, metadata\)"),
    ("return 'What?', 'That', {1, 2}", "metadata"),
    ("return '\\ud800 What?', 'That'", "surrogates not allowed"),
    ("raise KeyError('nope')", r"KeyError: 'nope' \(made.py, line \d+, in generate\)"),
)


def test_a_generator_that_fails_is_named_with_the_seed_and_may_print(tmp_path: Path) -> None:
    draws = {seed: Random(seed).random() for seed in range(len(GENERATORS))}
    failing = [f"    if draw == {draws[n]!r}:\n        {line}\n" for n, (line, _) in enumerate(GENERATORS)]
    prints = "    print('hello', flush=True)\n    import os; os.write(2, b'x')\n    draw = rng.random()\n"
    environment = changed(tmp_path, (GENERATE, "".join([prints, *failing, GENERATE])), seconds=2)
    for seed, (_, problem) in enumerate(GENERATORS):
        with pytest.raises(ConfigError, match=problem) as caught:
            environment.entry("short", {"digits": 2}, seed)
        where = f"short with digits 2, seed {seed}: {environment.file}: generate: "
        assert str(caught.value).startswith(where)
    assert len(draw(environment)) == 20


SCORERS = (
    ("import re; re.match('(a*)*b', 'a' * 40)", "no answer within 0.5 s"),
    ("import os; os.kill(os.getpid(), 11)", "killed by SIGSEGV"),
    ("raise ValueError('what')", "ValueError: what (made.py, line"),
    ("import sys; sys.exit(3)", "SystemExit: 3"),
    ("x = bytearray(1 << 40)", "MemoryError"),
    ("return 'y' * 300_000", "returned 'yyy"),
    ("return 1.5", "returned 1.5"),
    ("return 10 ** 6000", "ValueError"),
    ("return float('nan')", "ValueError"),
    ("import os; os.closerange(3, 99); import time; time.sleep(9)", "closed or flooded"),
    (
        "import os; [os.write(n, b'spam\\n') for n in range(3, 99)"
        " if 'socket' in os.path.realpath(f'/proc/self/fd/{n}')]",
        "wrote into the",
    ),
)


def test_a_scorer_that_fails_is_a_fault_within_its_deadline(tmp_path: Path) -> None:
    cases = [f"    if said == 'case {n}':\n        {line}\n" for n, (line, _) in enumerate(SCORERS)]
    environment = changed(tmp_path, (SCORE, "".join([SCORE, *cases])), seconds=0.5)
    one = draw(environment, 1)[0]
    for number, (_, problem) in enumerate(SCORERS):
        environment.judge_one(one, "1")  # the first request in a busy process also imports
        start = time.monotonic()
        fault = environment.judge_one(one, f"case {number}")
        assert time.monotonic() - start < 3
        assert fault.category == "scorer_failed"
        assert f"{environment.file}: score: " in fault.detail
        assert problem in fault.detail
        verdicts = environment.judge([one] * 2, [one.answer, "14"])
        assert [verdict.category for verdict in verdicts] == [None, "wrong"]


def test_a_slow_scorer_does_not_hold_up_a_batch(tmp_path: Path) -> None:
    slow = (SCORE, f"{SCORE}    import time; time.sleep(0.1)\n")
    environment = changed(tmp_path, slow, batch_seconds=0.3)
    one = draw(environment, 1)[0]
    verdicts = environment.judge([one] * 40, [one.answer] * 40)
    assert verdicts[0].valid
    assert verdicts[-1].category == "scorer_failed"
    assert "raise limits.batch_seconds" in verdicts[-1].detail


def test_too_many_faults_stop_a_stage(products: ModuleEnvironment) -> None:
    one = draw(products, 1)[0]
    right, wrong = products.judge([one] * 2, [one.answer, "1"])
    fault = wrong.model_copy(update={"category": "scorer_failed", "detail": "broke"})
    faults = FaultCount(products.space)
    faults.add([fault] * 10 + [right] * 10)
    with pytest.raises(DataError, match=r"11 of 21 answers could not be judged.*broke; mend the scorer"):
        faults.add([fault])
    FaultCount(products.space).add([fault] + [right] * 99, last=True)
    with pytest.raises(DataError, match="4 of 100 answers could not be judged"):
        FaultCount(products.space).add([fault] * 4 + [right] * 96, last=True)


def test_processes_of_a_scorer_end_with_its_deadline(tmp_path: Path) -> None:
    command = ["sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 60"]
    starts = f"{SCORE}    import subprocess; subprocess.run({command})\n"
    environment = changed(tmp_path, (SCORE, starts), seconds=1)
    assert "was killed" in environment.judge(draw(environment, 1), ["1"])[0].detail
    wait_for_end(int((tmp_path / "pid").read_text()))


def test_a_hanging_scorer_ends_with_its_killed_parent(tmp_path: Path) -> None:
    hang = f"    import os, re; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()) + ' ')\n"
    file = changed(tmp_path, (SCORE, f"{SCORE}{hang}    re.match('(a*)*b', 'a' * 40)\n")).file
    code = (
        "from envgen.registry import EnvironmentSpec;"
        f"e = EnvironmentSpec(name='module', options={{'file': {str(file)!r}}}).resolved().load();"
        "e.judge([e.entry('short', {'digits': 2}, 0)], ['1'])"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().endswith(" "):
        assert parent.poll() is None
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    wait_for_end(int((tmp_path / "pid").read_text()))


def test_a_worker_outlives_the_thread_that_started_it_and_ends_when_it_is_closed(tmp_path: Path) -> None:
    environment = changed(tmp_path)
    thread = threading.Thread(target=draw, args=(environment, 1))
    thread.start()
    thread.join()
    process = environment.worker._process
    assert process
    assert draw(environment, 1)
    assert process is environment.worker._process
    environment.worker.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, signal.SIGCONT)


def test_of_many_knobs_each_is_tried_at_both_ends(products: ModuleEnvironment) -> None:
    (digits,) = products.space["long"].knobs
    assert products.corners(products.space["long"]) == [{"digits": 4}, {"digits": 6}]
    knobs = tuple(digits.model_copy(update={"name": f"knob{number}"}) for number in range(9))
    corners = products.corners(products.space["long"].model_copy(update={"knobs": knobs}))
    assert len(corners) == 64
    assert all({corner[knob.name] for corner in corners} == {knob.low, knob.high} for knob in knobs)


def test_a_file_that_changed_or_went_stops_the_run(tmp_path: Path) -> None:
    environment = changed(tmp_path)
    environment.file.write_text(SKELETON + "\n# another\n")
    with pytest.raises(ConfigError, match="changed since the run began"):
        draw(environment)
    environment.file.unlink()
    options = environment.options.model_dump(mode="json")
    gone = EnvironmentSpec(name="module", options=options).resolved().load()
    assert gone.space.names == ("short", "long")
    with pytest.raises(ConfigError, match=r"made\.py: cannot be loaded: FileNotFoundError"):
        gone.generate("short", {"digits": 2}, 1, Source(0), frozenset())


LACKING = [
    ("def generate(", "def unused(", "generate: is missing"),
    ("def score(", "def unused(", "score: is missing"),
    ("class Config(BaseModel)", "class Config", "Config: is missing"),
    ("(4, 6)", "(4, 9)", "no range within 1 to 6"),
    ("ge=1, le=6, ", "", "no int or float with two bounds"),
    ('"long": {"digits"', '"long": {"digit"', r"STRATA\.long\.digit: Config has no such field; known are"),
]


def test_a_file_that_lacks_a_part_is_refused(tmp_path: Path) -> None:
    for *change, problem in LACKING:
        with pytest.raises(ValueError, match=problem):
            Generator(str(written(tmp_path, change)))
    for *change, problem in (LACKING[0], (SKELETON, "import time; time.sleep(", "SyntaxError")):
        with pytest.raises(ConfigError, match=rf"made\.py: .*{problem}"):
            loaded(written(tmp_path, change))


def test_new_writes_a_generator_that_passes_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["new", "environment", "riddles"], catch_exceptions=False).exit_code == 0
    result = CliRunner().invoke(app, ["check", "riddles.py"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    with pytest.raises(ConfigError, match="exists already"):
        CliRunner().invoke(app, ["new", "environment", "riddles"], catch_exceptions=False)
    with pytest.raises(ConfigError, match=r"none\.py: cannot be loaded: FileNotFoundError"):
        CliRunner().invoke(app, ["check", "none.py"], catch_exceptions=False)


@pytest.mark.parametrize(
    ("replacements", "findings"),
    [
        (
            {GENERATE: "    import random; a, b = 10, random.SystemRandom().randrange(10, 20)\n"},
            ["twice in one process", "distinct questions", "in this stratum alone"],
        ),
        (
            {GENERATE: GENERATE + "    a = 10 + hash(str(b)) % 80\n", "return 0.0": "return 1.0"},
            ["with another hash seed", "junk answers: .*scores 1"],
        ),
        (
            {"str(a * b)": "str(a * b + 1)", SCORE: "    said, entry['answer'] = answer, '1'\n"},
            ["references score 1"],
        ),
        (
            {GENERATE: "    a, b = 10, rng.choice([10, 10, 20])\n", SCORE: "    said = str(int(answer))\n"},
            ["one answer to all", "junk answers: .*ValueError"],
        ),
        ({GENERATE: f"{GENERATE}    if config.digits == 6: raise ValueError('too long')\n"}, ["too long"]),
    ],
)
def test_the_check_finds_defects(tmp_path: Path, replacements: dict[str, str], findings: list[str]) -> None:
    result = CliRunner().invoke(app, ["check", str(written(tmp_path, *replacements.items()))])
    assert result.exit_code == 1
    wrong = [line for line in result.output.splitlines() if line.startswith("WRONG")]
    assert all(any(re.search(finding, line) for line in wrong) for finding in findings), wrong
