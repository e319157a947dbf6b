"""YAML as people write it: words that only look like values, what is no YAML, and environment configs."""

from pathlib import Path

import pytest

from envgen.errors import ConfigError, DataError
from envgen.mapf.config import BoardsConfig
from envgen.yaml_files import load_yaml, read_env_config, read_yaml


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


UNREADABLE = {
    "an open bracket": "name: [",
    "a tab for indentation": "a:\n\tb: 1",
    "an object of Python": "name: !!python/object/apply:os.system ['true']",
    "two documents": "name: a\n---\nname: b",
    "a list": "- a\n- b",
    "a text": "hello",
    "nothing": "",
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=list(UNREADABLE))
def test_text_that_is_no_mapping_is_named_with_its_file(tmp_path: Path, text: str):
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    for read in (read_yaml, lambda path: read_env_config(path, BoardsConfig)):
        with pytest.raises(DataError) as refused:
            read(path)
        assert str(refused.value).startswith(f"{path}: ")


def test_malformed_yaml_is_named_with_its_line(tmp_path: Path):
    path = tmp_path / "broken.yaml"
    path.write_text("name: a\nfamily: {options: [3, 4}\n")
    with pytest.raises(DataError, match="line 2"):
        read_yaml(path)


def test_bytes_that_are_no_text_and_directories_are_data_errors(tmp_path: Path):
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (binary, tmp_path, tmp_path / "nowhere.yaml"):
        with pytest.raises(DataError) as refused:
            read_env_config(path, BoardsConfig)
        assert str(refused.value).startswith(f"{path}: ")


def test_an_environment_config_names_file_and_field(tmp_path: Path):
    path = tmp_path / "config.yaml"
    path.write_text("sizes:\n  3: {data_ratio: 1, hole_ratio: 0.2}\n")
    with pytest.raises(ConfigError) as refused:
        read_env_config(path, BoardsConfig)
    assert str(refused.value).startswith(f"{path}: sizes.3.wait_ratio: Field required")
