"""The config of a run's next stage: what the engineer proposed, or what a person decided on that proposal. A
decision is on one proposal, is stored before it is used, and stands once the next stage has begun."""

import logging
from datetime import UTC, datetime
from typing import Any, Literal

from filelock import FileLock

from engineer.answer import AnswerError, check_edits, project
from envgen.config import EnvConfig
from envgen.errors import ConfigError, RunDirectoryError
from infra.results import Decision, Verdict
from infra.runs.files import CONFIG, DECISION, GATE, PROPOSAL
from infra.runs.run import Run
from infra.runs.steps import RECORDS

log = logging.getLogger("envwright")
SUSPENDED = ".suspended.json"
"""In a run directory: the flow run that is suspended for a decision."""


def next_config(run: Run, stage: int) -> EnvConfig | None:
    """The config of the stage after `stage`; None if the run stops here, or waits for a decision."""
    decision = run.decision(stage)
    if decision is None:
        return None if must_ask(run, stage) else run.read(PROPOSAL, stage).config
    log.info("stage %d: proposal %s", stage, decision)
    return None if decision.decision == "stop" else decision.config


def must_ask(run: Run, stage: int) -> bool:
    """Whether a person has to decide before the stage after `stage` starts."""
    if run.preset.approval != "required" or stage + 1 >= run.preset.stages or run.decision(stage):
        return False
    # Approval may be asked for after the next stage has begun with the very proposal.
    return _begun_with(run, stage) != run.read(PROPOSAL, stage).config


def last_stage(run: Run) -> int:
    """The last stage with a proposal; RunDirectoryError if there is none."""
    done = [number for number in range(run.preset.stages) if run.has(PROPOSAL, number)]
    if not done:
        problem = "no stage has proposed anything yet; wait for the first one to end"
        raise RunDirectoryError(f"{run.directory}: {problem}")
    return done[-1]


def check_open(run: Run, stage: int) -> None:
    """RunDirectoryError if no stage follows that a decision on a proposal could be about."""
    if stage + 1 >= run.preset.stages:
        problem = f"is finished with stage {stage} ({stage + 1} of {run.preset.stages}), no stage follows"
        remedy = "run it with a larger --stages and --set approval=required to decide on the next config"
        raise RunDirectoryError(f"{run.directory}: {problem} that a decision could be about; {remedy}")


def previous_config(run: Run, stage: int) -> EnvConfig:
    """The config that a rejected proposal leaves in place: the one of the stage whose policy is in force."""
    return run.config_of(run.read(GATE, stage).in_force)


def decided(
    run: Run,
    stage: int,
    verdict: Verdict,
    *,
    via: Literal["form", "shell"],
    seen: str,
    edit: dict[str, Any] | None = None,
    comment: str = "",
    by: str = "",
) -> Decision:
    """The decision on the proposal of a stage whose digest is `seen`.

    `edit` is a raw config, `{key: {stratum: {knob: value}}}`, which counts with `approve` only; ConfigError
    for a number outside of the space. It is made possible as for an engineer, with the `changes`."""
    proposed = run.read(PROPOSAL, stage).config
    config, changes = proposed, []
    if verdict == "approve" and edit is not None and edit != proposed.model_dump(mode="json"):
        check_edits(edit[run.preset.space.key], run.preset.space, ranges=True)
        try:
            projected, changes = project(edit, run.preset.space, proposed)
        except AnswerError as error:
            remedy = f"give at least one {run.preset.space.noun} a share"
            raise ConfigError(f"the edited config: {error}; {remedy}") from None
        config, notes = run.possible(stage + 1, projected)
        changes = [*changes, *notes]
        for change in changes:
            log.info("stage %d: the edited config: %s", stage, change)
    elif verdict == "reject":
        config, changes = run.possible(stage + 1, previous_config(run, stage))
    return Decision(
        stage=stage,
        decision=verdict,
        config=config,
        edited=verdict == "approve" and config != proposed,
        changes=tuple(changes),
        comment=comment,
        by=by,
        via=via,
        proposal=seen,
        decided_at=datetime.now(UTC).replace(microsecond=0),
    )


def store_decision(run: Run, decision: Decision) -> None:
    """Store a decision; it replaces an earlier one on the same proposal until the next stage has begun.
    RunDirectoryError if that has begun, or another proposal lies there than the one decided on."""
    with FileLock(run.folder(decision.stage) / RECORDS / "decision.lock"):
        if not run.has(PROPOSAL, decision.stage) or run.digest(PROPOSAL, decision.stage) != decision.proposal:
            what = "is not the proposal that was shown; look at it again, and decide anew"
            raise RunDirectoryError(f"{run.path(PROPOSAL, decision.stage)}: {what}")
        begun, earlier = _begun_with(run, decision.stage), run.decision(decision.stage)
        if begun and (earlier or begun == run.read(PROPOSAL, decision.stage).config):
            what = f"its config was {earlier or 'not asked about'}; decide on the next proposal"
            raise RunDirectoryError(f"{run.directory}: stage {decision.stage + 1} has begun, {what}")
        run.write(DECISION, decision, decision.stage)


def _begun_with(run: Run, stage: int) -> EnvConfig | None:
    """The config of the stage after `stage`; None if that has not begun."""
    return run.read(CONFIG, stage + 1) if run.has(CONFIG, stage + 1) else None
