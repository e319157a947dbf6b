"""Whether a run is finished, found out without Prefect: its last call left a record of all that it wrote."""

from pathlib import Path

from pydantic import ValidationError

from envgen.files import digest, file_digest, write_json
from envgen.frozen import Frozen
from infra.config.settings import Settings
from infra.config.versions import code_version
from infra.runs.run import Run, RunRef, new_curriculum
from infra.runs.stage import Stage
from infra.runs.steps import CODE_VERSIONS, RECORDS, matches, read_record

_NAME = ".finished.json"


class _Finished(Frozen):
    """What a finished run wrote. No record of a step: a run that is extended writes some of it anew."""

    key: str
    outputs: dict[str, str]
    """Path in the run's directory -> SHA-256."""


def record_finished(run: RunRef) -> None:
    """Record that all stages of a run are done; at its end, under its lease."""
    write_json(run.directory / _NAME, _Finished(key=_key(run), outputs=_outputs(run)))


def is_finished(run: RunRef) -> bool:
    """Whether the same call, by the same code, has run to its end and been recorded at the same place, and
    all files are as the steps wrote them. Of a run that is copied to a remote nobody knows without it."""
    found, settings = _read(run), Settings()
    store = settings.tracking_uri.removeprefix("sqlite:///")
    return (
        found is not None
        and not settings.remote
        and ("://" in store or Path(store).is_file())
        and found.key == _key(run)
        and found.outputs == _outputs(run)
        and matches(found.outputs, run.directory)
        and run.has(Run.report)
    )


def _read(run: RunRef) -> _Finished | None:
    try:
        return _Finished.model_validate_json((run.directory / _NAME).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _key(run: RunRef) -> str:
    held = new_curriculum(run.name, run.preset).preset_digest
    decides = {"preset": held, "stages": run.preset.stages, "approval": run.preset.approval}
    decides["store"] = Settings().tracking_uri
    return digest({**decides, "steps": CODE_VERSIONS, "code": code_version()})


def _outputs(run: RunRef) -> dict[str, str]:
    """Path in the run's directory -> SHA-256, of what its steps recorded, and of what follows from that."""
    found = {}
    for record in sorted(run.directory.glob(f"**/{RECORDS}/*.json")):
        step = read_record(record.parent.parent, record.stem)
        if step is not None:
            folder = record.parent.parent.relative_to(run.directory)
            found |= {str(folder / name): sha for name, sha in step.outputs.items()}
    for pattern in (Run.results.name, f"*/{Stage.manifest.name}", f"*/{Stage.decided.name}"):
        files = run.directory.glob(pattern)
        found |= {str(file.relative_to(run.directory)): file_digest(file) for file in files}
    return found
