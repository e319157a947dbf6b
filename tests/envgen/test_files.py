import json
import os
from pathlib import Path

import pytest
from board_makers import repeatable
from hypothesis import given
from hypothesis import strategies as st

from envgen.errors import DataError, RunDirectoryError
from envgen.files import (
    atomic_path,
    canonical_json,
    digest,
    file_digest,
    move_directory,
    read_json_lines,
    read_model,
    read_text,
    write_json,
    write_text,
)
from envgen.frozen import Frozen

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


class Stored(Frozen):
    number: int


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("disk full")])
def test_an_error_or_a_kill_in_mid_write_keeps_the_former_file(tmp_path: Path, error: BaseException):
    path = tmp_path / "file.txt"

    def write_half() -> None:
        with atomic_path(path) as temporary:
            temporary.write_text("half")
            left = {path.name: path.read_text()} if path.exists() else {}
            assert left == former, "a kill leaves no more"
            raise error

    for former in ({}, {"file.txt": "old"}):
        with pytest.raises(type(error)):
            write_half()
        assert {file.name: file.read_text() for file in tmp_path.iterdir()} == former
        write_text(path, "old")


@pytest.mark.parametrize("name", ["pipe", "link"])
def test_a_pipe_or_a_device_is_not_replaced_by_a_file(name: str, tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    refusal = f"{name}: is a device or a pipe, which a file would replace; choose the path of a file"
    with pytest.raises(DataError, match=refusal):
        write_text(tmp_path / name, "text")
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "link").is_symlink()
    assert len(list(tmp_path.iterdir())) == 2


def test_writing_to_a_link_changes_the_file_that_it_leads_to(tmp_path: Path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "file")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "deep" / "file").read_text() == "new"
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["file"]


def test_a_file_without_end_is_refused(tmp_path: Path):
    (tmp_path / "p").symlink_to("/dev/zero")
    for read in (read_text, lambda path: list(read_json_lines(path))):
        with pytest.raises(DataError, match=r"p: .*has more than 16,000,000 characters"):
            read(tmp_path / "p")


def test_lines_are_counted_from_1_and_read_one_at_a_time(tmp_path: Path):
    (tmp_path / "p").write_bytes('\ufeff"a\u2028b"\r\n\n3\n'.encode() + b"4\n" * 100_000 + b"\xff")
    lines = read_json_lines(tmp_path / "p")
    assert [next(lines) for _ in range(2)] == [(1, "a\u2028b"), (3, 3)]
    with pytest.raises(DataError, match="p: cannot be read as text"):
        list(lines)


@repeatable
@given(documents)
def test_canonical_json_reads_back_and_is_stable(value: object):
    text = canonical_json(value)
    assert json.loads(text) == value
    assert canonical_json(json.loads(text)) == text


def test_canonical_json_is_one_line_with_sorted_keys_and_takes_models_paths_and_tuples():
    value = {"b": (1, 2), "a": {2: Path("x/y"), 10: None}, "é": 0.5, "c": Stored(number=3)}
    expected = '{"a":{"10":null,"2":"x/y"},"b":[1,2],"c":{"number":3},"é":0.5}'
    assert canonical_json(value) == expected


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": -float("inf")}])
def test_numbers_that_json_does_not_know_are_refused(value: object):
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(value)


def test_digests_never_change():
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert digest([1, 2]) == digest((1, 2)) != digest([2, 1])
    assert digest(Stored(number=3)) == digest({"number": 3})


def test_the_digest_of_a_folder_covers_names_and_contents(tmp_path: Path):
    write_text(tmp_path / "model.safetensors", "weights")
    write_json(tmp_path / "deep" / "two.json", {"x": [1]})
    first = file_digest(tmp_path)
    os.rename(tmp_path / "model.safetensors", tmp_path / "other.safetensors")
    renamed = file_digest(tmp_path)
    write_json(tmp_path / "deep" / "two.json", {"x": [2]})
    assert len({first, renamed, file_digest(tmp_path)}) == 3
    write_text(tmp_path / "digit", "1")
    expected = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"
    assert file_digest(tmp_path / "digit") == expected


def test_a_finished_folder_replaces_the_one_that_was_there(tmp_path: Path):
    write_text(tmp_path / "new" / "file.txt", "new")
    write_text(tmp_path / "final" / "stale.txt", "old")
    move_directory(tmp_path / "new", tmp_path / "final")
    assert [p.name for p in (tmp_path / "final").iterdir()] == ["file.txt"]
    assert not (tmp_path / "new").exists()


def test_a_stored_model_is_read_and_a_missing_or_damaged_one_says_what_to_do(tmp_path: Path):
    path = tmp_path / "stored.json"
    write_json(path, Stored(number=3))
    assert read_model(path, Stored, "nothing there", "write it again") == Stored(number=3)
    with pytest.raises(RunDirectoryError, match=r"^nothing there$"):
        read_model(path / "below", Stored, "nothing there", "write it again")
    damaged = r"stored\.json: damaged, or made by another version: .*; write it again$"
    for content in ("{", "[]", '{"number": "x"}', '{"number": 1, "more": 2}'):
        path.write_text(content)
        with pytest.raises(RunDirectoryError, match=damaged):
            read_model(path, Stored, "nothing there", "write it again")
