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
