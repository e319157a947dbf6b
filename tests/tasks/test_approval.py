"""A person's decision: what is stored, what follows, and what can never count as one."""

from pathlib import Path
from typing import Any

import pytest
from factories import finished_run
from support.boards import boards_config

from engineer.contract import Proposal
from envgen.config import EnvConfig
from envgen.errors import ConfigError, RunDirectoryError
from flows.approval import approval_form
from infra.config.preset import load_preset
from infra.runs.files import CONFIG, DECISION, PROPOSAL
from infra.runs.next_config import decided, last_stage, must_ask, next_config, store_decision
from infra.runs.run import Run

PREVIOUS, PROPOSED = (
    boards_config({size: (share, 0.3, 0.25) for size, share in enumerate(shares, start=3)})
    for shares in ((0.25, 0.25, 0.25, 0.25), (0.1, 0.3, 0.3, 0.3))
)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run whose stage 0 has proposed."""
    preset = load_preset("micro", {"approval": "required"})
    ref = Run(directory=finished_run(tmp_path / "mine", (4, 5), preset).directory, chosen=preset)
    ref.write(CONFIG, PREVIOUS, 0)
    propose(ref, PROPOSED)
    return ref


def propose(run: Run, config: EnvConfig, rationale: str = "less of 3x3 <script>") -> None:
    proposal = Proposal(stage=0, engineer="fixed", context="V6", rationale=rationale, config=config)
    run.write(PROPOSAL, proposal, 0)


def decide(run: Run, verdict: Any, **more: Any) -> EnvConfig | None:
    store_decision(run, decided(run, 0, verdict, via="shell", seen=run.digest(PROPOSAL, 0), **more))
    return next_config(run, 0)


def edited(**knobs: float) -> dict[str, Any]:
    raw = PROPOSED.model_dump(mode="json")
    raw["sizes"]["6"] |= knobs
    return raw


def test_every_verdict_leads_to_its_config_and_may_be_replaced_and_without_one_there_is_none(run: Run):
    assert must_ask(run, 0)
    assert next_config(run, 0) is None
    assert decide(run, "reject", comment="too hard") == PREVIOUS
    assert not must_ask(run, 0)
    rejected = run.decision(0)
    assert (rejected.decision, rejected.edited, rejected.comment) == ("reject", False, "too hard")
    assert decide(run, "stop") is None
    assert not must_ask(run, 0)
    assert decide(run, "approve", by="ada") == PROPOSED
    assert str(run.decision(0)).startswith("approved by ada (shell, ")


def test_nobody_is_asked_where_the_preset_does_not_say_so_or_no_stage_follows(run: Run):
    free, last = (
        run.model_copy(update={"chosen": run.preset.model_copy(update=fields)})
        for fields in ({"approval": "none"}, {"stages": 1})
    )
    assert next_config(free, 0) == PROPOSED
    assert not must_ask(last, 0)


def test_an_edit_is_recorded_as_one_with_what_had_to_be_changed(run: Run):
    config = decide(run, "approve", edit=edited(data_ratio=0.1, hole_ratio=0.25))
    assert config.strata["6"]["hole_ratio"] == 0.25
    assert sum(part.data_ratio for part in config.strata.values()) == pytest.approx(1)
    assert run.decision(0).edited
    assert run.decision(0).changes == ("data_ratio summed to 0.8 and was scaled to 1",)
    assert decide(run, "approve", edit=PROPOSED.model_dump(mode="json")) == PROPOSED
    assert not run.decision(0).edited, "submitted as it was shown"


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (edited(hole_ratio=0.9), "6.hole_ratio: 0.9 is no number from 0.2 to 0.4"),
        (edited(wait_ratio=float("nan")), "6.wait_ratio: nan"),
        (edited(depth=0.5), "6.depth: there is no such number"),
        ({"sizes": {"9": {"data_ratio": 1.0}}}, "no map size '9'"),
        ({"sizes": {str(size): {"data_ratio": 0} for size in (3, 4, 5, 6)}}, "every data_ratio is 0"),
    ],
)
def test_an_edit_that_is_not_legal_is_refused_and_nothing_stored(run: Run, edit: dict[str, Any], said: str):
    with pytest.raises(ConfigError, match=said):
        decide(run, "approve", edit=edit)
    assert run.decision(0) is None


def test_a_decision_counts_for_the_proposal_that_was_shown_alone(run: Run):
    decide(run, "approve")
    seen = decided(run, 0, "approve", via="form", seen=run.digest(PROPOSAL, 0))
    propose(run, PREVIOUS)
    assert run.decision(0) is None
    assert must_ask(run, 0)
    with pytest.raises(RunDirectoryError, match="is not the proposal that was shown"):
        store_decision(run, seen)


@pytest.mark.parametrize(("asked", "reason"), [(True, "approved"), (False, "not asked about")])
def test_once_the_next_stage_has_begun_its_config_stands(run: Run, asked: bool, reason: str):
    if asked:
        decide(run, "approve")
    run.write(CONFIG, PROPOSED, 1)
    assert not must_ask(run, 0), "also where approval is asked for late"
    with pytest.raises(RunDirectoryError, match=f"stage 1 has begun, its config was {reason}"):
        decide(run, "reject")
    if not asked:
        run.write(CONFIG, PREVIOUS, 1)
        assert must_ask(run, 0)


def test_a_damaged_decision_is_no_approval(run: Run):
    (run.path(DECISION, 0)).write_text('{"decision": "approve"}')
    with pytest.raises(RunDirectoryError, match=r"decision.json: damaged"):
        next_config(run, 0)


def test_the_form_has_no_default_decision_no_partial_config_and_no_markup_of_a_model(run: Run):
    form = approval_form(run, 0, "")
    schema = form.model_json_schema()
    assert schema["required"] == ["decision"]
    assert schema["properties"]["config"]["default"]["stratum_3"] == PROPOSED.strata["3"].model_dump()
    size = schema["$defs"]["Form_3"]
    assert size["required"] == ["data_ratio", "hole_ratio", "wait_ratio"]
    holes = size["properties"]["hole_ratio"]
    assert (holes["minimum"], holes["maximum"]) == (0.2, 0.4)
    text = str(form._description)
    assert "<script>" not in text.replace("\\<script\\>", "")
    assert "25 % → 10 %" in text.replace("\u00a0", " ")


def test_the_last_stage_with_a_proposal_is_the_one_to_decide_on(run: Run):
    assert last_stage(run) == 0
    run.path(PROPOSAL, 0).unlink()
    with pytest.raises(RunDirectoryError, match="no stage has proposed"):
        last_stage(run)
    for asked in (must_ask, next_config):
        with pytest.raises(RunDirectoryError, match=r"stage-00/proposal.json: is missing"):
            asked(run, 0)
