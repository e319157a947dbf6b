"""Tables in a pipe, and the command that makes a run again."""

import pytest

from flows.commands.terminal import plain_table, print_whole
from infra.config.preset import load_preset
from infra.runs.run import run_command


def test_a_pipe_has_all_columns_in_lines_as_long_as_they_need(capsys: pytest.CaptureFixture[str]):
    table = plain_table("run", "size", "age")
    for column in table.columns:
        column.no_wrap = True
    table.add_row("r" * 240, "s" * 40, "a" * 40)
    print_whole(table, ("age", "size"))
    head, *_, row = (line for line in capsys.readouterr().out.splitlines() if line.strip())
    assert head.split() == ["run", "size", "age"]
    assert row.split() == ["r" * 240, "s" * 40, "a" * 40]


def test_a_run_that_asked_is_made_again_by_a_command_that_asks():
    asking = load_preset("micro", {"approval": "required"})
    assert "--set approval=required" in run_command("mine", asking, 2)
    assert "approval" not in run_command("mine", load_preset("micro"), 2)
