"""The number of values in the columns of a Parquet file, from its footer.

pyarrow's own accessor of a column's metadata ends the process (std::terminate) where a size histogram of the
footer is damaged, so this reads the few fields that are needed. The footer is a Thrift structure in the
compact protocol (https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md); its
fields are in https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift.
"""

from pathlib import Path
from typing import Any

MAGIC = b"PAR1"
MAX_FOOTER = 64 * 2**20
"""Bytes of a footer that are read at most."""
MAX_DEPTH = 24
"""Structures in structures; the format has 7."""
_ROW_GROUPS, _COLUMNS, _META_DATA, _PATH, _NUM_VALUES = 4, 1, 3, 3, 5
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12


def values_by_column(path: Path) -> list[tuple[str, int]]:
    """(top-level column, number of values, nested and missing ones included) of each column of each row
    group.

    ValueError if the file has no readable footer; OSError if it cannot be read.
    """
    root = _Compact(_footer(path)).struct()
    found = []
    try:
        for group in root.get(_ROW_GROUPS, []):
            for chunk in group[_COLUMNS]:
                column = chunk[_META_DATA]
                found.append((column[_PATH][0].decode(), int(column[_NUM_VALUES])))
    except (KeyError, IndexError, TypeError, AttributeError):
        raise ValueError("the footer does not describe its columns") from None
    if any(count < 0 for _, count in found):
        raise ValueError("the footer says that a column has less than no values")
    return found


def _footer(path: Path) -> bytes:
    with open(path, "rb") as file:
        end = file.seek(0, 2)
        if end < 12:
            raise ValueError("too short for a Parquet file")
        file.seek(end - 8)
        length, magic = int.from_bytes(file.read(4), "little"), file.read(4)
        if magic != MAGIC:
            raise ValueError("does not end as a Parquet file")
        if length > min(MAX_FOOTER, end - 8):
            raise ValueError(f"its footer is said to have {length:,} bytes")
        file.seek(end - 8 - length)
        return file.read(length)


class _Compact:
    """Reads values of Thrift's compact protocol; ValueError for what is none."""

    def __init__(self, data: bytes):
        self._data, self._at = data, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """The fields of a structure by number."""
        if depth > MAX_DEPTH:
            raise ValueError("the footer is nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while header := self._byte():
            step, kind = header >> 4, header & 15
            number = number + step if step else self._signed()
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        if kind < _DOUBLE:
            return self._signed()
        if kind == _DOUBLE:
            return self._take(8)
        if kind == _BINARY:
            return self._take(self._unsigned())
        if kind in (_LIST, _SET):
            header = self._byte()
            count = header >> 4 if header >> 4 < 15 else self._unsigned()
            return [self._value(header & 15, depth + 1) for _ in range(self._bounded(count))]
        if kind == _MAP:
            count = self._bounded(self._unsigned())
            kinds = self._byte() if count else 0
            return [
                (self._value(kinds >> 4, depth + 1), self._value(kinds & 15, depth + 1)) for _ in range(count)
            ]
        if kind == _STRUCT:
            return self.struct(depth + 1)
        raise ValueError(f"the footer has a value of kind {kind}")

    def _bounded(self, count: int) -> int:
        # Each element takes a byte at least.
        if count > len(self._data) - self._at:
            raise ValueError("the footer has a list that is longer than itself")
        return count

    def _take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) < count:
            raise ValueError("the footer ends too soon")
        self._at += count
        return taken

    def _byte(self) -> int:
        return self._take(1)[0]

    def _unsigned(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise ValueError("the footer has a number that is too long")

    def _signed(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)
