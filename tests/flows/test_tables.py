"""Tables in a pipe."""

import pytest

from flows.commands.terminal import plain_table, print_whole


def test_a_pipe_has_all_columns_in_lines_as_long_as_they_need(capsys: pytest.CaptureFixture[str]):
    table = plain_table("run", "size", "age")
    table.add_row("r" * 240, "s" * 40, "a" * 40)
    print_whole(table)
    head, *_, row = (line for line in capsys.readouterr().out.splitlines() if line.strip())
    assert head.split() == ["run", "size", "age"]
    assert row.split() == ["r" * 240, "s" * 40, "a" * 40]
