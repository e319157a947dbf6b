"""Validation instances, and the report of a run of two stages."""

from datetime import UTC, datetime

import pytest
from made_up_runs import HOSTILE, MOVED, SIZES, env_config, proposal, write_run
from report_page import Page, report
from support.boards import sample_boards

from engineer.proposal import Attempt
from envgen.mapf.problem import Instance


@pytest.fixture(scope="session")
def validation() -> list[Instance]:
    return sample_boards(env_config(dict.fromkeys(SIZES, 1 / 3)), 45, seed=3, purpose="validation")


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory, validation: list[Instance]) -> Page:
    noted = {
        "started": datetime(2026, 1, 2, tzinfo=UTC),
        "seconds": 1.5,
        "prompt_tokens": 15,
        "completion_tokens": 6,
    }
    unread = Attempt(text=HOSTILE, finish_reason="length", error=f"not JSON: {HOSTILE}", **noted)
    attempts = (unread, Attempt(text='{"sizes": {}}', finish_reason="stop", **noted))
    proposals = (
        proposal(
            0,
            MOVED,
            rationale=f"Drop 3x3.\n{HOSTILE}",
            prompt=f"Failures: {HOSTILE}",
            attempts=attempts,
            changes=("shares divided by 1.2",),
        ),
        proposal(1, MOVED, rationale="", fallback=f"no answer could be read: {HOSTILE}"),
    )
    return report(write_run(tmp_path_factory.mktemp("run"), validation, (5, 4), proposals))
