"""A person's decision on what a stage proposed: what there is to decide, what was decided, and what follows."""

from typing import Any, Literal

from engineer.answer import KNOBS, AnswerError, project
from engineer.context import ConfigSpace
from envgen.config import EnvConfig
from envgen.errors import ConfigError, RunDirectoryError, shown
from envgen.files import file_digest
from infra.runs.decision import PROPOSAL, Decision, Verdict, begun_with, now, read_decision
from tasks.design import possible, read_proposal
from tasks.gate import config_of
from tasks.run import RunRef, log, read_gate


def must_ask(run: RunRef, stage: int) -> bool:
    """Whether a person has to decide before the stage after `stage` starts."""
    if run.preset.approval != "required" or stage + 1 >= run.preset.stages or read_decision(run.stage(stage)):
        return False
    # Approval may be asked for after the next stage has begun with the very proposal.
    return begun_with(run.directory, stage) != read_proposal(run, stage).config


def last_stage(run: RunRef) -> int:
    """The last stage with a proposal; RunDirectoryError if there is none."""
    done = [number for number in range(run.preset.stages) if (run.stage(number) / PROPOSAL).exists()]
    if not done:
        raise RunDirectoryError(f"{run.directory}: no stage has proposed anything yet; wait for the first one to end")
    return done[-1]


def previous_config(run: RunRef, stage: int) -> EnvConfig:
    """The config that a rejected proposal leaves in place: that of the stage whose policy is in force."""
    return config_of(run, read_gate(run, stage).in_force)


def decided(
    run: RunRef,
    stage: int,
    verdict: Verdict,
    *,
    via: Literal["form", "shell"],
    seen: str,
    edit: dict[str, Any] | None = None,
    comment: str = "",
    by: str = "",
) -> Decision:
    """The decision on the proposal of a stage whose digest is `seen`; `edit` is a raw config, `{"sizes": {"3": {knob: value}}}`.

    Edits count with `approve` only. A ratio outside of the config space is refused with ConfigError.
    Shares are scaled to sum to 1; a class with too few boards is shrunk as for a designer. Both are told in `changes`.
    """
    proposed = read_proposal(run, stage).config
    config, changes, edited = proposed, (), edit is not None and edit != proposed.model_dump(mode="json")
    if verdict == "approve" and edited:
        assert edit is not None
        config, changes = _edited(run, stage, edit)
        for change in changes:
            log.info("stage %d: the edited config: %s", stage, change)
    elif verdict == "reject":
        config, notes = possible(run, stage + 1, previous_config(run, stage))
        changes = tuple(notes)
    return Decision(
        stage=stage,
        decision=verdict,
        config=config,
        edited=verdict == "approve" and config != proposed,
        changes=changes,
        comment=comment,
        by=by,
        via=via,
        proposal=seen,
        decided_at=now(),
    )


def proposal_digest(run: RunRef, stage: int) -> str:
    """SHA-256 of the proposal of a stage."""
    return file_digest(run.stage(stage) / PROPOSAL)


def _edited(run: RunRef, stage: int, raw: dict[str, Any]) -> tuple[EnvConfig, tuple[str, ...]]:
    space = run.preset.space
    _check_ranges(raw, space)
    try:
        config, changes = project(raw, space, read_proposal(run, stage).config)
    except AnswerError as error:
        raise ConfigError(f"the edited config: {error}; give at least one map size a share") from None
    config, notes = possible(run, stage + 1, config)
    return config, (*changes, *notes)


def _check_ranges(raw: dict[str, Any], space: ConfigSpace) -> None:
    """ConfigError for a map size, knob or value that the config space does not have: a person is told, a model would be corrected."""
    known = {str(size) for size in space.map_sizes}
    for size, knobs in raw["sizes"].items():
        if size not in known:
            raise ConfigError(f"map size {size} is not in {list(space.map_sizes)}; leave it out")
        for knob, value in knobs.items():
            if knob not in KNOBS:
                raise ConfigError(f"{size}.{knob}: there is no such ratio; known are {', '.join(KNOBS)}")
            low, high = (space.min_hole_ratio, space.max_hole_ratio) if knob == "hole_ratio" else (0, 1)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise ConfigError(f"{size}.{knob}: {shown(value)} is no number from {low:g} to {high:g}; give one")
