"""Finished runs, and the report of a run of two stages."""

from pathlib import Path

import pytest
from factories import asked, finished_run, with_results
from report_page import EVEN, HOSTILE, MOVED, TINY, MakeRun, Page, hostile_answers, report
from support.boards import boards_config, sample_boards

from engineer.contract import Proposal
from envgen.mapf.problem import Instance
from infra.config.preset import Preset
from infra.runs.run import Run


@pytest.fixture(scope="session")
def validation() -> list[Instance]:
    config = boards_config(dict.fromkeys((3, 4, 5), (1 / 3, 0.2, 0.25)))
    return sample_boards(config, 45, seed=3, purpose="validation")


@pytest.fixture(scope="session")
def make_run(tmp_path_factory: pytest.TempPathFactory, validation: list[Instance]) -> MakeRun:
    """Make a finished run of boards from the number of right answers in ten, of base policy and stages."""

    def make(*correct: int, preset: Preset = TINY, proposals: tuple[Proposal, ...] = ()) -> Run:
        directory: Path = tmp_path_factory.mktemp("runs") / "first"
        proposals = proposals or tuple(asked(stage, MOVED) for stage in range(len(correct) - 1))
        configs = (EVEN, *(proposal.config for proposal in proposals))
        run = finished_run(directory, correct, preset, validation, proposals, configs, hostile_answers)
        made = {"finished": "2026-01-02T03:04:05+00:00", "code": "0.1.0+abc", "machine": "Linux, 2 cores"}
        return with_results(run, **made, seconds={"train": 61.0}, tokens={"training": 12_345})

    return make


@pytest.fixture(scope="session")
def page(make_run: MakeRun) -> Page:
    """The report of two stages; the second proposal could not be read."""
    words = {"rationale": f"Drop 3x3.\n{HOSTILE}", "prompt": f"Failures: {HOSTILE}"}
    first = asked(0, MOVED, **words)
    unread = first.attempts[0].model_copy(update={"text": HOSTILE, "error": f"not JSON: {HOSTILE}"})
    first = first.model_copy(update={"attempts": (unread, *first.attempts[1:])})
    second = asked(1, MOVED, rationale="", fallback=f"no answer could be read: {HOSTILE}")
    return report(make_run(3, 5, 4, proposals=(first, second)))
