"""What a run says at its end."""

from datetime import UTC, datetime

import pytest

from engineer.gate import BASE_POLICY, decide
from engineer.proposal import Proposal
from envgen.breakdown import Breakdown, Counts, Difference
from envgen.config import EnvConfig
from flows.commands.terminal import plain_table, print_whole
from infra.config.preset import load_preset
from infra.markdown import result_markdown
from infra.results import CurriculumResults, Decision, StageResult, TrainingSummary
from infra.runs.run import run_command
from infra.summary import notes

CONFIG = EnvConfig.model_validate({"sizes": {"3": {"data_ratio": 1, "hole_ratio": 0.2, "wait_ratio": 0}}})
BREAKDOWN = Breakdown(strata={"3": Counts(n=4, valid=4, optimal=4, failures={})})
SAME = Difference(value=0, low=0, high=0)


def results(*proposals: dict) -> CurriculumResults:
    stages = [
        StageResult(
            stage=stage,
            config=CONFIG,
            training=TrainingSummary(
                steps=1, seconds=1, completion_tokens=1, mean_reward=0, zero_variance_share=0
            ),
            breakdown=BREAKDOWN,
            valid_gain=SAME,
            optimal_gain=SAME,
            gate=decide("off", stage, BASE_POLICY, SAME, 1.0),
            proposal=Proposal(stage=stage, engineer="openai", variant="V6", config=CONFIG, **fields),
            seconds={},
        )
        for stage, fields in enumerate(proposals)
    ]
    names = {"curriculum": "first", "preset": "tiny", "engineer": "openai", "variant": "V6", "seed": 7}
    return CurriculumResults.model_validate({**names, "start": BREAKDOWN, "stages": stages})


def test_a_run_that_needs_no_words_has_none():
    assert notes(results({}, {})) == []


def test_every_stage_that_kept_its_config_says_why():
    reasons = (
        "the model could not answer, the previous config is kept: http://host/v1: status 500",
        "engineer 'tidal' failed",
    )
    assert notes(results({"fallback": reasons[0]}, {}, {"fallback": reasons[1]})) == [
        "stage 0: the previous config was kept: the model could not answer: http://host/v1: status 500",
        "stage 2: the previous config was kept: engineer 'tidal' failed",
    ]


@pytest.mark.parametrize(
    ("used", "line"),
    [
        (
            {"prompt_tokens": 1000, "completion_tokens": 20},
            "engineer: 2000 prompt tokens, 40 completion tokens",
        ),
        (
            {"prompt_tokens": 1000, "completion_tokens": 20, "requests": 3, "cost": 0.0012},
            "engineer: 2000 prompt tokens, 40 completion tokens, 6 requests, cost 0.0024",
        ),
        ({"requests": 2, "cost": 0.0}, "engineer: 0 prompt tokens, 0 completion tokens, 4 requests, cost 0"),
    ],
)
def test_what_the_engineer_used_is_summed_over_the_stages(used: dict, line: str):
    assert notes(results(used, used)) == [line]


def test_a_drop_says_what_followed_and_the_policy_that_the_run_ends_with():
    drop = Difference(value=-0.2, low=-0.3, high=-0.1)
    start = results({}, {"fallback": "by the gate: a drop"})
    gates = [decide("rollback", stage, stage - 1, change, 0.001) for stage, change in enumerate((SAME, drop))]
    stages = [
        stage.model_copy(update={"gate": gate}) for stage, gate in zip(start.stages, gates, strict=True)
    ]
    lines = notes(start.model_copy(update={"stages": tuple(stages)}))
    assert lines == [
        (
            "stage 1: valid rate -20.0 points [-30.0, -10.0] against stage 0, p = 0.001: a drop; the next"
            " stage starts from stage 0 with the config of stage 0"
        )
    ]


def test_a_pipe_has_all_columns_in_lines_as_long_as_they_need(capsys: pytest.CaptureFixture[str]):
    table = plain_table("run", "size", "age")
    for column in table.columns:
        column.no_wrap = True
    table.add_row("r" * 240, "s" * 40, "a" * 40)
    print_whole(table, ("age", "size"))
    head, *_, row = (line for line in capsys.readouterr().out.splitlines() if line.strip())
    assert head.split() == ["run", "size", "age"]
    assert row.split() == ["r" * 240, "s" * 40, "a" * 40]


def test_the_result_on_a_curriculums_page_says_what_a_person_decided():
    when = datetime(2026, 11, 26, tzinfo=UTC)
    edited = {"stage": 0, "decision": "approve", "config": CONFIG, "edited": True, "via": "form"}
    decision = Decision(**edited, by="Ada", proposal="0" * 64, decided_at=when)
    found = results({}, {})
    stages = (found.stages[0].model_copy(update={"decision": decision}), found.stages[1])
    preset = load_preset("micro")
    shown = result_markdown(preset, found.model_copy(update={"stages": stages}), {}, "")
    rows = [line for line in shown.splitlines() if line.startswith("|")]
    assert [row.split("|")[1].strip() for row in rows[2:]] == [
        "base policy",
        "after stage 0",
        "after stage 1",
    ]
    assert "- A person decided on the config of stage 1: approved with edits by Ada" in shown
    assert "A person decided" not in result_markdown(preset, found, {}, "")


def test_a_run_that_asked_is_made_again_by_a_command_that_asks():
    asking = load_preset("micro", {"approval": "required"})
    assert "--set approval=required" in run_command("mine", asking, 2)
    assert "approval" not in run_command("mine", load_preset("micro"), 2)
