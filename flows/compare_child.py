"""One curriculum of a comparison in a process of its own: `python -m flows.compare_child SPEC.json`.

What it logs goes to standard output for its log file, and as progress lines to the comparison. Where the
comparison's flow run is known, the curriculum shows as a child of it."""

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from envgen.errors import BUGS, EnvwrightError
from envgen.frozen import Frozen
from infra.config.preset import Preset
from policy.child import tell

if TYPE_CHECKING:
    from prefect import Flow
    from prefect.client.schemas.objects import FlowRun


class CurriculumSpec(Frozen):
    """What a child process is told."""

    directory: Path
    title: str
    preset: Preset
    parent: UUID | None
    """The comparison's flow run."""


class ProgressHandler(logging.Handler):
    """Log records as progress lines."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record."""
        tell({"level": record.levelno, "message": record.getMessage()})


def run(spec: CurriculumSpec) -> None:
    """Run the curriculum; it continues where it was cut off."""
    from flows.commands.terminal import show_log

    show_log()
    logging.getLogger("envwright").addHandler(ProgressHandler())
    from prefect import Flow
    from prefect.flow_engine import run_flow

    from flows.curriculum import run_curriculum

    flow = Flow(run_curriculum, name="curriculum", flow_run_name=spec.title)
    parameters = {"preset": spec.preset, "directory": spec.directory}
    run_flow(flow, flow_run=_linked(flow, parameters, spec), parameters=parameters)


def _linked(flow: "Flow", parameters: dict, spec: CurriculumSpec) -> "FlowRun | None":
    """A new flow run under that of the comparison; None if Prefect cannot make one, and then the curriculum
    stands for itself."""
    if spec.parent is None:
        return None
    from prefect import Task
    from prefect.client.orchestration import get_client
    from prefect.states import Pending

    from infra.serving.reaper import TAG

    try:
        with get_client(sync_client=True) as client:
            placeholder = Task(name=spec.title, fn=flow.fn)
            task_run = client.create_task_run(
                placeholder,
                flow_run_id=spec.parent,
                dynamic_key=spec.directory.name,
                name=spec.title,
                state=Pending(),
            )
            given = flow.serialize_parameters(parameters)
            flow_run = client.create_flow_run(
                flow,
                name=spec.title,
                parameters=given,
                parent_task_run_id=task_run.id,
                state=Pending(),
                tags=[TAG],
            )
    except BUGS:
        raise
    except Exception as error:  # a missing link is not worth a lost run
        logging.getLogger("envwright").warning(
            "Prefect does not show this run under its comparison: %s", error
        )
        return None
    tell({"flow_run": str(flow_run.id)})
    return flow_run


def main() -> None:
    """Entry point of the child process."""
    try:
        run(CurriculumSpec.model_validate_json(Path(sys.argv[1]).read_bytes()))
    except EnvwrightError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
