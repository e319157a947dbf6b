"""Whether a suspended run was asked about the same proposal before."""

from pathlib import Path

import pytest

from envgen.files import write_json
from flows.suspended import WAITING, asked_before

ASKED = {"flow_run": "a", "stage": 0, "proposal": "0" * 64}


@pytest.mark.parametrize(
    ("there", "again"), [(None, False), (ASKED, True), ({**ASKED, "stage": 1}, False), ("{", False)]
)
def test_a_run_was_asked_before_only_about_the_very_proposal(tmp_path: Path, there: object, again: bool):
    if isinstance(there, str):
        (tmp_path / WAITING).write_text(there)
    elif there:
        write_json(tmp_path / WAITING, there)
    assert asked_before(tmp_path, ASKED) is again
