"""A user's generator file: what it draws, and what happens when it misbehaves."""

import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from envgen.environment import FaultCount, Source
from envgen.errors import ConfigError, DataError
from envgen.module import skeleton
from envgen.module.family import ModuleFamily, open_generator
from envgen.registry import EnvironmentSpec
from envgen.rows import instance_of, instance_row
from flows.cli import app

SKELETON = Path(skeleton.__file__).read_text()


def changed(folder: Path, *replacements: tuple[str, str], limits: dict | None = None) -> ModuleFamily:
    """The skeleton with some of its lines replaced, as a family."""
    text = SKELETON
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    file = folder / "made.py"
    file.write_text(text)
    options = {"file": str(file), "limits": limits or {}}
    found = EnvironmentSpec(name="module", options=options).resolved().load()
    assert isinstance(found, ModuleFamily)
    return found


def draw(family: ModuleFamily, count: int = 20, digits: float = 2.0, seed: int = 0) -> list:
    return family.generate("short", {"digits": digits}, count, Source(seed), frozenset()).instances


BODY = "    a, b = rng.randrange(low, high), rng.randrange(low, high)\n"
SCORED = "    said = answer.strip()\n"


@pytest.fixture(scope="module")
def products(tmp_path_factory: pytest.TempPathFactory) -> ModuleFamily:
    return changed(tmp_path_factory.mktemp("products"))


def test_strata_and_knobs_are_those_of_the_file_in_its_order(products: ModuleFamily) -> None:
    assert products.space.names == ("short", "long")
    (digits,) = products.space["long"].knobs
    assert (digits.low, digits.high, digits.step, digits.description) == (
        4,
        6,
        1,
        "the digits of each factor",
    )
    assert products.space.identity == "canonical"


def test_a_draw_depends_on_its_source_alone_and_splits_whole_knobs(products: ModuleFamily) -> None:
    first, again = draw(products, 40, 2.5), draw(products, 40, 2.5)
    assert first == again
    assert len({one.id for one in first}) == 40
    digits = [len(str(one.payload["entry"]["metadata"]["factors"][0])) for one in first]
    assert (digits.count(2), digits.count(3)) == (20, 20)
    assert first != draw(products, 40, 2.5, seed=1)


def test_mirrored_questions_are_one_by_the_identity_of_the_file_and_two_without(tmp_path: Path) -> None:
    both = [('    return f"What is', '    a, b = rng.choice([(12, 34), (34, 12)])\n    return f"What is')]
    ids = {changed(tmp_path, *both).entry("short", {"digits": 2}, seed).id for seed in range(20)}
    assert len(ids) == 1
    family = changed(tmp_path, *both, ("def identity(", "def unused("))
    assert len({family.entry("short", {"digits": 2}, seed).id for seed in range(20)}) == 2
    assert family.space.identity == "textual"


def test_references_are_right_also_after_a_round_trip_through_a_data_set(products: ModuleFamily) -> None:
    rows = [json.loads(json.dumps(instance_row(products, one, "tagged"))) for one in draw(products)]
    assert all("<answer>" in row["prompt"] for row in rows)
    read = [instance_of(products, row, "row") for row in rows]
    assert all(verdict.valid for verdict in products.judge(read, [one.answer for one in read]))
    tagged = [f"I think 5.\n<answer>1</answer> no, <answer> {one.answer} </answer>" for one in read]
    assert all(verdict.valid for verdict in products.judge(read, tagged))


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=()), max_size=200))
def test_hostile_answers_get_a_category(products: ModuleFamily, text: str) -> None:
    (verdict,) = products.judge(draw(products, 1), [text])
    assert verdict.category in {"no_answer", "wrong"}


def test_an_answer_of_ten_megabytes_is_not_scored(products: ModuleFamily) -> None:
    (verdict,) = products.judge(draw(products, 1), ["9" * 10_000_000])
    assert verdict.category == "no_answer"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("while True: pass", "no answer within 1 s"),
        ("import os; os._exit(7)", "ended with exit code 7"),
        ("import os; os.kill(os.getpid(), 11)", "killed by SIGSEGV"),
        ("x = bytearray(1 << 40)", "MemoryError"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("return 'What?', 5", "its answer is 5; expected a text"),
        ("return 'What?'", "expected \\(question, answer, metadata\\)"),
        ("return 'What?', 'That', {1, 2}", "metadata"),
        ("return '', 'That'", "its question is ''"),
        ("raise KeyError('nope')", "KeyError: 'nope'"),
    ],
)
def test_a_generator_that_fails_is_named_with_the_seed(tmp_path: Path, line: str, said: str) -> None:
    family = changed(tmp_path, (BODY, f"{BODY}    {line}\n"), limits={"seconds": 1})
    with pytest.raises(ConfigError, match=said) as caught:
        draw(family)
    assert f"{family.file}: short with digits 2, seed " in str(caught.value)


def test_a_generator_may_print(tmp_path: Path) -> None:
    family = changed(
        tmp_path, (BODY, f"{BODY}    print('hello', flush=True)\n    import os; os.write(2, b'x')\n")
    )
    assert len(draw(family)) == 20


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("while True: pass", "no answer within 1 s"),
        ("import os; os._exit(7)", "ended with exit code 7"),
        ("raise ValueError('what')", "ValueError: what"),
        ("return 'yes'", "score returned 'yes'"),
        ("return 1.5", "score returned 1.5"),
        ("return float('nan')", "ValueError"),
    ],
)
def test_a_scorer_that_fails_is_a_category_and_too_many_stop_the_stage(
    tmp_path: Path, line: str, said: str
) -> None:
    family = changed(
        tmp_path, (SCORED, f"{SCORED}    if said == '13':\n        {line}\n"), limits={"seconds": 1}
    )
    one = draw(family, 1)[0]
    verdicts = family.judge([one] * 3, ["13", one.answer, "14"])
    assert [verdict.category for verdict in verdicts] == ["scorer_failed", None, "wrong"]
    assert said in verdicts[0].detail
    with pytest.raises(DataError, match="1 of 3 answers could not be judged"):
        FaultCount(family.space).add(verdicts, last=True)


def test_a_scorer_that_is_slow_with_every_answer_does_not_hold_up_a_batch(tmp_path: Path) -> None:
    slow = (SCORED, f"{SCORED}    import time; time.sleep(0.2)\n")
    family = changed(tmp_path, slow, limits={"batch_seconds": 0.5})
    one, begun = draw(family, 1)[0], time.monotonic()
    verdicts = family.judge([one] * 40, [one.answer] * 40)
    assert time.monotonic() - begun < 4
    assert verdicts[0].valid
    assert verdicts[-1].category == "scorer_failed"
    assert "took more than 0.5 s" in verdicts[-1].detail


def test_few_faults_do_not_stop_a_stage_and_many_do_before_its_end(products: ModuleFamily) -> None:
    one = draw(products, 1)[0]
    right, wrong = products.judge([one] * 2, [one.answer, "1"])
    failed = wrong.model_copy(update={"category": "scorer_failed", "detail": "broke"})
    faults = FaultCount(products.space)
    faults.add([failed] * 10 + [right] * 10)
    with pytest.raises(DataError, match=r"11 of 21 answers could not be judged.*broke"):
        faults.add([failed])
    FaultCount(products.space).add([failed] + [right] * 99, last=True)


def test_too_many_faults_of_a_short_stage_stop_it_at_its_end(products: ModuleFamily) -> None:
    one = draw(products, 1)[0]
    right, wrong = products.judge([one] * 2, [one.answer, "1"])
    faults = FaultCount(products.space)
    faults.add([wrong.model_copy(update={"category": "scorer_failed"})] * 4)
    faults.add([right] * 96)
    with pytest.raises(DataError, match="4 of 100 answers could not be judged"):
        faults.add([], last=True)


def test_a_scorer_that_is_killed_leaves_nothing_it_has_started(tmp_path: Path) -> None:
    command = ["sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 60"]
    started = f"{SCORED}    import subprocess; subprocess.run({command})\n"
    family = changed(tmp_path, (SCORED, started), limits={"seconds": 2})
    one = draw(family, 1)[0]
    (verdict,) = family.judge([one], [one.answer])
    assert "was killed" in verdict.detail
    deadline = time.monotonic() + 10
    while Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_file_may_have_annotations_as_texts(tmp_path: Path) -> None:
    more = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Pair:\n    first: int = 1\n"
    )
    (tmp_path / "made.py").write_text(f"{more}{SKELETON}")
    found = EnvironmentSpec(name="module", options={"file": str(tmp_path / "made.py")}).resolved().load()
    assert found.space.names == ("short", "long")


def test_a_setting_that_the_config_lacks_is_refused(tmp_path: Path) -> None:
    text = SKELETON.replace('"long": {"digits"', '"long": {"digit"')
    assert text != SKELETON
    (tmp_path / "made.py").write_text(text)
    with pytest.raises(ConfigError, match=r"STRATA\.long\.digit: Config has no such field; known are"):
        EnvironmentSpec(name="module", options={"file": str(tmp_path / "made.py")}).resolved()


def test_of_many_knobs_each_is_tried_at_both_ends(products: ModuleFamily) -> None:
    knobs = tuple(
        products.space["long"].knobs[0].model_copy(update={"name": f"knob{number}"}) for number in range(9)
    )
    corners = products.corners(products.space["long"].model_copy(update={"knobs": knobs}))
    assert len(corners) == 64
    assert all({corner[knob.name] for corner in corners} == {knob.low, knob.high} for knob in knobs)
    assert products.corners(products.space["long"]) == [{"digits": 4}, {"digits": 6}]


def test_a_file_that_changed_stops_the_run(tmp_path: Path) -> None:
    family = changed(tmp_path)
    family.file.write_text(SKELETON + "\n# another\n")
    with pytest.raises(ConfigError, match="changed since the run began"):
        draw(family)


def test_the_space_is_known_without_the_file(tmp_path: Path) -> None:
    options = changed(tmp_path)._options.model_dump(mode="json")
    (tmp_path / "made.py").unlink()
    again = EnvironmentSpec(name="module", options=options).resolved().load()
    assert again.space.names == ("short", "long")
    with pytest.raises(ConfigError, match="is not there"):
        again.generate("short", {"digits": 2}, 1, Source(0), frozenset())


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("def generate(", "def unused(", "generate: is missing"),
        ("def score(", "def unused(", "score: is missing"),
        ("class Config(BaseModel)", "class Config", "Config: is missing"),
        ("(4, 6)", "(4, 9)", "no range within 1 to 6"),
        ("ge=1, le=6, ", "", "no int or float with two bounds"),
        ("import Random", "import Rand0m", "cannot import name"),
    ],
)
def test_a_file_that_lacks_a_part_says_so(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        changed(tmp_path, (old, new))


def test_worker_processes_do_not_stay(tmp_path: Path) -> None:
    family = changed(tmp_path)
    draw(family, 1)
    process = family.worker._process
    assert process
    family.worker.close()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and Path(f"/proc/{process.pid}").exists():
        time.sleep(0.05)
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


def test_new_writes_a_generator_that_passes_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["family", "new", "riddles"], catch_exceptions=False).exit_code == 0
    done = CliRunner().invoke(app, ["family", "check", "riddles.py"], catch_exceptions=False)
    assert done.exit_code == 0
    assert "nothing wrong was found" in done.output
    with pytest.raises(ConfigError, match="is there already"):
        CliRunner().invoke(app, ["family", "new", "riddles"], catch_exceptions=False)


@pytest.mark.parametrize(
    ("replacements", "said"),
    [
        (
            [(BODY, BODY + "    import random; a = random.SystemRandom().randrange(10, 99)\n")],
            "twice in one process",
        ),
        ([(BODY, BODY + "    a = 10 + hash(str(b)) % 80\n")], "with another hash seed"),
        (
            [("str(a * b)", "str(a * b + 1)"), ('entry["answer"])', 'entry["answer"]) - 1')],
            "references score 1",
        ),
        ([('f"What is', 'f"\\ud800 What is')], "the same when stored and read"),
        ([("return 0.0", "return 1.0")], "junk answers"),
        ([(SCORED, "    said = str(int(answer))\n")], "junk answers"),
        ([(BODY, "    a, b = 10, rng.choice([10, 10, 20])\n")], "one answer to all"),
        ([('int(said) == int(entry["answer"])', 'len(said) == len(entry["answer"])')], "one answer to all"),
        ([(BODY, "    a, b = 10, rng.randrange(10, 20)\n")], "distinct questions"),
        ([("(4, 6)", "(2, 3)")], "in this stratum alone"),
        (
            [(BODY, BODY + "    if config.digits == 6: raise ValueError('too long')\n")],
            "ValueError: too long",
        ),
    ],
)
def test_the_check_finds_what_is_wrong(
    tmp_path: Path, replacements: list[tuple[str, str]], said: str
) -> None:
    file = changed(tmp_path, *replacements).file
    done = CliRunner().invoke(app, ["family", "check", str(file)])
    assert done.exit_code == 1
    assert said in "\n".join(line for line in done.output.splitlines() if line.startswith("WRONG"))


def test_open_generator_names_the_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        open_generator(tmp_path / "none.py")
