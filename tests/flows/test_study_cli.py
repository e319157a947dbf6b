"""`envwright study` with nothing left to run."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_study_in_the_docs_is_what_its_answers_say(envwright, tmp_path: Path):
    done = envwright("study", "small", "--data", ROOT / "docs" / "study", "-o", tmp_path)
    assert done.code == 0, done.err
    assert (tmp_path / "study.md").read_text() == (ROOT / "docs" / "study.md").read_text()
    assert {path.name for path in (tmp_path / "study").glob("*.png")} == {
        path.name for path in (ROOT / "docs" / "study").glob("*.png")
    }
