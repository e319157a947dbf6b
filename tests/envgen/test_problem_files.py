"""Files of problems: read back as they were written, or refused with line, field and value."""

import json
from pathlib import Path

import pytest
from board_makers import problems, repeatable
from hypothesis import given, settings
from hypothesis import strategies as st
from support.boards import board

from envgen.errors import DataError
from envgen.files import read_json_lines
from envgen.mapf.problem import Problem
from envgen.mapf.problem_files import read_problems

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
GOOD = board("crossing").model_dump(mode="json")


def lines(folder: Path, *values: object) -> Path:
    path = folder / "p.jsonl"
    texts = (value if isinstance(value, str) else json.dumps(value) for value in values)
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


@settings(repeatable, max_examples=60)
@given(drawn=st.lists(st.tuples(problems(), NAMES), min_size=1, max_size=3))
def test_problems_come_back_from_json_lines(drawn: list[tuple[Problem, str]], tmp_path_factory):
    named = [problem.model_copy(update={"id": name}) for problem, name in drawn]
    path = lines(tmp_path_factory.mktemp("lines"), *(problem.model_dump(mode="json") for problem in named))
    assert read_problems(path) == named


def with_size(text: str) -> str:
    return json.dumps(GOOD).replace('"size": 3', f'"size": {text}')


def with_start(text: str) -> str:
    return json.dumps(GOOD).replace('"start": [1, 0]', f'"start": {text}')


HOSTILE = {
    "size 10^9": (with_size("1000000000"), "size: Input should be less than or equal to 10 (got 1000000000)"),
    "a repeated key": (with_size('3, "size": 4'), "not JSON (the key 'size' stands twice)"),
    "infinity": (with_size("1e999"), "size: Input should be a valid integer (got inf)"),
    "an integer of 4,000 digits": (with_size("9" * 4000), "size: "),
    "an integer of 5,000 digits": (with_size("9" * 5000), "not JSON (Exceeds the limit"),
    "a cell of floats": (with_start("[1.0, 0]"), "agents.1.start.0: Input should be a valid integer"),
    "a cell of NaN": (with_start("[NaN, 0]"), "agents.1.start.0: Input should be a valid integer (got nan)"),
    "a start on a hole": (with_start("[0, 0]"), "start (0, 0) lies on a hole; move it to a frozen cell"),
    "a giant id": (json.dumps({**GOOD, "id": "x" * 5_000_000}), "id: String should have at most 200 char"),
    "a giant line": ("x" * 5_000_000, "not JSON"),
    "objects in objects": ('{"size":' * 100_000, "not JSON"),
    "lists in lists": ("[" * 100_000 + "]" * 100_000, "not JSON"),
}


@pytest.mark.parametrize(("line", "complaint"), HOSTILE.values(), ids=list(HOSTILE))
def test_a_hostile_line_is_refused_with_field_and_value(line: str, complaint: str, tmp_path: Path):
    path = lines(tmp_path, GOOD, line)
    with pytest.raises(DataError) as caught:
        read_problems(path)
    assert str(caught.value).startswith(f"{path}: line 2: ")
    assert complaint in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_nesting_at_the_border_of_what_can_be_read_is_refused_too(tmp_path: Path):
    for depth in range(880, 1010, 5):
        path = lines(tmp_path, '{"size": ' + "[" * depth + "]" * depth + "}")
        with pytest.raises(DataError, match=r"p\.jsonl: line 1: "):
            read_problems(path)


def test_a_file_that_cannot_have_a_name_is_refused():
    with pytest.raises(DataError, match="cannot be read as text"):
        next(read_json_lines(Path("x" * 5000)))
