"""YAML as people write it: words that only look like values, and what is no YAML."""

from pathlib import Path

import pytest

from envgen.errors import DataError
from envgen.yaml_files import load_yaml, read_yaml


def test_a_word_that_begins_as_a_boolean_is_a_word():
    assert load_yaml("[true, trueish, Falsely, FALSE, truest of all]") == [
        True,
        "trueish",
        "Falsely",
        False,
        "truest of all",
    ]


TAGGED = ("!!bool maybe", "!!timestamp never", "!!int x")


@pytest.mark.parametrize("text", [*TAGGED, "2020-13-45", "{[b]: c}", "[" * 5000])
def test_a_value_that_does_not_fit_its_tag_is_one_message(text: str, tmp_path: Path):
    (tmp_path / "mine.yaml").write_text(f"a: {text}")
    with pytest.raises(DataError, match=r"mine\.yaml: not readable as YAML: "):
        read_yaml(tmp_path / "mine.yaml")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: 2\na: 3\n", 3),
        ("trl:\n  beta: 0\n  beta: 1\n", 3),
        ("{4: 1, 4: 2}", 1),
        ("a: [{b: 1, b: 2}]", 1),
    ],
)
def test_a_key_that_stands_twice_is_refused_with_its_line(tmp_path: Path, text: str, line: int):
    (tmp_path / "file.yaml").write_text(text)
    with pytest.raises(DataError, match=r"stands twice; leave one of them out") as refused:
        read_yaml(tmp_path / "file.yaml")
    assert f"line {line}," in str(refused.value)


def test_a_merged_mapping_may_change_what_it_merges():
    assert load_yaml("a: &a {b: 1, c: 2}\nd: {<<: *a, b: 3}") == {
        "a": {"b": 1, "c": 2},
        "d": {"b": 3, "c": 2},
    }
