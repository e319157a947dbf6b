"""YAML 1.2 scalars, refused documents, and environment configs in files."""

from pathlib import Path

import pytest

from envgen.errors import DataError
from envgen.yaml_files import dump_yaml, load_yaml, read_yaml


def test_scalars_are_those_of_yaml_1_2():
    assert load_yaml("[true, trueish, FALSE, off, yes, 1e-4, 0o17, 017, 1:20, ~]") == [
        *(True, "trueish", False, "off", "yes", 1e-4, 15, 17, "1:20", None)
    ]
    assert load_yaml("a: &a {b: 1, c: 2}\nd: {<<: *a, b: 3}")["d"] == {"b": 3, "c": 2}


def test_values_are_read_back_as_they_were_written():
    value = {
        "b": [1, 1e-4, None],
        "a": {"off": "off", "text": "1e-4", "none": "", "list": []},
        "8": "x" * 300,
    }
    assert load_yaml(dump_yaml(value)) == value
    assert list(load_yaml(dump_yaml(value))) == ["b", "a", "8"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3: found duplicate key"),
        ("a: [{b: 1, b: 2}]", "line 1: found duplicate key"),
        ("name: a\nenvironment: {options: [3, 4}\n", "line 2: "),
        ("name: [", "line 1: "),
        ("a:\n\tb: 1", "line 2: "),
        ("name: !!python/object/apply:os.system ['true']", "line 1: could not determine a constructor"),
        ("name: a\n---\nname: b", "not readable as YAML"),
        ("a: !!bool maybe", "not readable as YAML"),
        ("a: 2020-13-45", "not readable as YAML"),
        ("a: " + "[" * 1000, "not readable as YAML"),
        ("- a\n- b", "holds list, expected a mapping"),
        ("hello", "holds str, expected a mapping"),
        ("", "holds NoneType, expected a mapping"),
    ],
)
def test_what_is_no_mapping_is_one_message_with_its_file(tmp_path: Path, text: str, message: str):
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(DataError) as refused:
        read_yaml(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert message in str(refused.value)
    assert "suppress" not in str(refused.value)


def test_bytes_that_are_no_text_and_directories_are_data_errors(tmp_path: Path):
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "binary.yaml", tmp_path, tmp_path / "nowhere.yaml"):
        with pytest.raises(DataError, match=f"{path}: "):
            read_yaml(path)
