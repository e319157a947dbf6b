"""Artifacts of the Prefect UI: the progress of training, and the result of a run so far with links.

Artifacts are a view: one that cannot be written is a line in the log, never the end of a run. Their keys hold
run and stage, as Prefect keeps one history a key."""

import re
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec
from uuid import UUID

from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    update_progress_artifact,
)
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, ArtifactFilterKey
from prefect.context import FlowRunContext, TaskRunContext

from envgen.errors import BUGS
from infra.analysis.formats import duration
from infra.analysis.stage_view import result_markdown
from infra.config.settings import Settings
from infra.runs.progress import first_guess, seconds_left
from infra.runs.results import CurriculumResults
from infra.runs.run import Run, RunRef
from tasks.run import Throttle, log

P = ParamSpec("P")


def show(create: Callable[..., Any], *args: Any, **what: Any) -> Any:
    """What `create` returns for `what`; None outside of a run of Prefect, or with a warning if Prefect does
    not take it."""
    if not (FlowRunContext.get() or TaskRunContext.get()):
        return None
    try:
        return create(*args, **what)
    except BUGS:
        raise
    except Exception as error:  # a view that is missing is not worth a run
        log.warning("an artifact is not shown in Prefect: %s", error)
        return None


def view(make: Callable[P, None]) -> Callable[P, None]:
    """A function that shows something, whose failure is a line in the log."""

    @wraps(make)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        show(make, *args, **kwargs)

    return guarded


class TrainingProgress:
    """Tells of a stage's training as it goes: a line in the log and a bar in the UI, both at a bearable
    rate."""

    def __init__(self, run: RunRef, stage: int) -> None:
        key = stage_key(run, stage, "training")
        self._bar: UUID | None = show(
            create_progress_artifact,
            progress=0.0,
            key=key,
            description=f"Training of stage {stage}: starting",
        )
        self._run, self._stage, self._throttle = run, stage, Throttle()
        self._after = seconds_left(run, stage, after="train")

    def __call__(self, entry: dict[str, Any]) -> None:
        """Take a progress entry of the trainer."""
        if "reward" not in entry or not (self._throttle.ready() or entry["step"] == entry["steps"]):
            return
        # A comparison's shared stage 0 is a run of one stage; "of the run" would be read as of all.
        whole = "run" if self._run.preset.stages > 1 else "stage"
        text = progress_text(entry, self._seconds_after(entry), whole)
        log.info("stage %d: %s", self._stage, text)
        if self._bar is not None:
            show(
                update_progress_artifact,
                artifact_id=self._bar,
                progress=100 * entry["step"] / entry["steps"],
                description=f"Training of stage {self._stage}: {text}",
            )

    def _seconds_after(self, entry: dict[str, Any]) -> float | None:
        """Seconds that the run takes after this training."""
        if self._after is None and self._stage == 0 and (here := entry["steps_here"]):
            return first_guess(self._run, entry["elapsed"] / here * entry["steps"])
        return self._after


def progress_text(entry: dict[str, Any], after: float | None = None, whole: str = "run") -> str:
    """A progress entry of the trainer in words; the speed is that of this process, not of those that it
    resumed from. `after` are the seconds that the `whole` takes after this training, if they are known."""
    here, elapsed, left = entry["steps_here"], entry["elapsed"], ""
    if here:
        seconds = elapsed / here * (entry["steps"] - entry["step"])
        left = f", about {seconds:.0f} s of this training left"
        left += f", {duration(seconds + after)} of the {whole}" if after is not None else ""
    speed = f", {entry['tokens_here'] / elapsed:,.0f} tokens/s" if elapsed else ""
    return (
        f"step {entry['step']} of {entry['steps']}, reward {entry['reward']:.2f}, valid"
        f" {100 * entry['rewards/valid/mean']:.0f} %, groups without signal"
        f" {100 * entry['frac_reward_zero_std']:.0f} %{speed}{left}"
    )


@view
def show_result(
    run: RunRef, results: CurriculumResults, addresses: dict[str, str], waiting: str = ""
) -> None:
    """The result so far, on the page of the curriculum itself: one artifact, written again after each
    stage."""
    places = {"report": str(run.path(Run.report).resolve()), **addresses}
    text = result_markdown(run.preset.space, results, run.preset.stages, places, waiting)
    so_far = " so far" if len(results.stages) < run.preset.stages else ""
    keep_markdown(run_key(run, "result"), text, f"{run.name}: result{so_far}")


def keep_markdown(key: str, markdown: str, description: str) -> None:
    """Write a text that this flow run shows once: what it showed under the key before is replaced."""
    context = FlowRunContext.get()
    assert context is not None
    assert context.flow_run is not None
    mine = ArtifactFilter(
        key=ArtifactFilterKey(any_=[key]), flow_run_id=ArtifactFilterFlowRunId(any_=[context.flow_run.id])
    )
    with get_client(sync_client=True) as client:
        if found := client.read_artifacts(artifact_filter=mine):
            client.update_artifact(found[0].id, ArtifactUpdate(data=markdown, description=description))
            return
    create_markdown_artifact(markdown=markdown, key=key, description=description)


def run_key(run: RunRef, what: str) -> str:
    """The key of an artifact of a curriculum."""
    directory, runs = run.directory.resolve(), Settings().runs.resolve()
    # Runs of two comparisons have the same names.
    name = str(directory.relative_to(runs)) if directory.is_relative_to(runs) else str(directory)
    return artifact_key(f"{name}-{what}")


def stage_key(run: RunRef, stage: int, what: str) -> str:
    """The key of an artifact of a stage."""
    return run_key(run, f"stage-{stage}-{what}")


def artifact_key(text: str) -> str:
    """A text as the key of an artifact: small letters, digits and dashes, as Prefect wants them."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
