"""`envwright mapf verify`: verdicts for a file of answers."""

import json
from pathlib import Path

from problem_lines import APART, NO_WAY_PAST, write_lines

from envgen.dataset import write_dataset
from envgen.mapf.problem_files import read_instances
from envgen.mapf.prompts import PromptStyle
from envgen.mapf.verifier import Verdict

GOOD = "Agent 0: (0,0) (0,1) (0,2)\nAgent 1: (2,2) (2,1) (2,0)"
LATE = "Agent 0: (0,0) (0,1) (0,2)\nAgent 1: (2,2) (2,1) (2,1) (2,0)"
JUMP = "Agent 0: (0,0) (0,2)\nAgent 1: (2,2) (2,1) (2,0)"


def test_answers_to_a_data_set_get_their_verdicts_in_order(envwright, tmp_path: Path):
    write_lines(tmp_path / "p.jsonl", APART, APART.replace("apart", "again"))
    instances = read_instances(tmp_path / "p.jsonl")
    write_dataset(tmp_path / "data.parquet", instances, PromptStyle.BOARD, {})
    answers = [("again", GOOD), ("apart", LATE), ("apart", "I think " + GOOD[:7])]
    answers.append(("apart", f"I thought\u2028about it.\x85\n{GOOD}"))  # no ends of a line of JSON
    answers.append(("apart", f"<think>\n{GOOD}\n</think>\nI cannot solve it."))
    lines = ({"id": name, "completion": text} for name, text in answers)
    write_lines(tmp_path / "answers.jsonl", *(json.dumps(line, ensure_ascii=False) for line in lines))
    done = envwright("mapf", "verify", "data.parquet", "answers.jsonl")
    assert done.code == 0, done.err
    verdicts = [json.loads(line) for line in done.out.splitlines()]
    assert [v["id"] for v in verdicts] == [name for name, _ in answers]
    found = [(v["valid"], v["optimal"], v["category"], v["sum_of_costs"]) for v in verdicts]
    right, unread = (True, True, None, 4), (False, False, "parse_error", None)
    assert found == [right, (True, False, None, 5), unread, right, unread]
    assert set(verdicts[0]) == {"id", *Verdict.model_fields}
    assert done.err.startswith("5 answers: valid 60.0% [")
    written = envwright("mapf", "verify", "data.parquet", "answers.jsonl", "-o", "verdicts.jsonl")
    assert (written.code, written.out) == (0, "")
    assert (tmp_path / "verdicts.jsonl").read_text() == done.out


def test_problems_are_solved_before_their_answers_are_judged(envwright, tmp_path: Path):
    write_lines(tmp_path / "p.jsonl", APART)
    write_lines(tmp_path / "a.jsonl", *({"id": "apart", "completion": text} for text in (GOOD, LATE, JUMP)))
    printed = envwright("mapf", "verify", "p.jsonl", "a.jsonl").out
    verdicts = [json.loads(line) for line in printed.splitlines()]
    assert [(v["valid"], v["optimal"]) for v in verdicts] == [(True, True), (True, False), (False, False)]
    jump = verdicts[2]
    assert (jump["category"], jump["agent"], jump["step"], jump["cell"]) == ("illegal_move", 0, 1, [0, 2])
    assert "jumps from (0,0) to (0,2)" in jump["detail"]


def test_answers_that_cannot_be_judged_are_refused_with_their_line(refused, tmp_path: Path):
    write_lines(tmp_path / "p.jsonl", APART)
    known = {"id": "apart", "completion": "x"}
    for values, complaint in [
        ([known, {"id": "unknown", "completion": "x"}], "line 2: id 'unknown' is not in"),
        ([known, known, {"id": "apart"}], "line 3: completion: Field required"),
        ([{**known, "score": 1}], "line 1: score: Extra inputs are not permitted"),
        ([{"id": 7, "completion": "x"}], "line 1: id: Input should be a valid string"),
        ([[]], "line 1: (top level): Input should be a valid dictionary"),
        ([known, "not json"], "line 2: not JSON"),
        ([], "holds no answer"),
    ]:
        write_lines(tmp_path / "answers.jsonl", *values)
        command = ["mapf", "verify", "p.jsonl", "answers.jsonl", "-o", "verdicts.jsonl"]
        refused(command, f"error: answers.jsonl: {complaint}")
    refused(["mapf", "verify", "p.jsonl", "nowhere.jsonl", "-o", "v.jsonl"], "nowhere.jsonl: no such file")
    refused(["mapf", "verify", "nowhere.parquet", "answers.jsonl"], "nowhere.parquet: no such file")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["answers.jsonl", "p.jsonl"]


def test_problems_that_answers_cannot_be_tied_to_are_refused(refused, tmp_path: Path):
    write_lines(tmp_path / "a.jsonl", {"id": "apart", "completion": "x"})
    for other, complaint in [
        (APART, "id 'apart' occurs twice"),
        (NO_WAY_PAST, "problem 'no way past' is not solvable"),
        ("{}", "line 2: size: Field required"),
    ]:
        write_lines(tmp_path / "p.jsonl", APART, other)
        refused(["mapf", "verify", "p.jsonl", "a.jsonl"], f"error: p.jsonl: {complaint}")
