"""The registered model of a preset: a version for each checkpoint that a gate named best; alias `best`."""

import re

from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException

from infra.lineage.checkpoint_tags import CURRICULUM, PREFIX, quoted
from infra.lineage.recorder import Recorder

BEST = "best"
VALID, VALIDATION = PREFIX + "valid", PREFIX + "validation_digest"


def registry_name(name: str) -> str:
    """`envwright-<name>` in the characters that MLflow's registry accepts."""
    return "envwright-" + re.sub(r"[^A-Za-z0-9._-]", "-", name)


def name_best(
    recorder: Recorder, preset: str, model_id: str, valid: float, validation: str, tags: dict[str, str]
) -> None:
    """Register the checkpoint that a gate named best.

    The alias goes to the best version on the validation set of the one that has it. Within a curriculum a
    gate names a new best only if its valid rate is higher, so that the alias follows the gate, and recording
    an older stage again leaves it where it is. Rates on different validation sets say nothing about each
    other.
    """
    name = registry_name(preset)
    version = _version(recorder, name, model_id, {VALID: repr(valid), VALIDATION: validation, **tags})
    _move_alias(recorder, name, _holder(recorder, name) or version)


def withdraw(recorder: Recorder, preset: str, curriculum: str, stage: int, model_id: str | None) -> None:
    """Delete the versions of a stage that are not of `model_id`.

    The stage was done again, and their weights are gone. If one of them has the alias, it goes to
    the best version left.
    """
    name = registry_name(preset)
    old = [
        v
        for v in _versions(recorder, name)
        if (v.tags.get(CURRICULUM), v.tags.get("stage")) == (quoted(curriculum), str(stage))
    ]
    gone = [version for version in old if version.source != f"models:/{model_id}"]
    if not gone:
        return
    holder = _holder(recorder, name)
    for version in gone:
        recorder.client.delete_model_version(name, version.version)
    if holder and any(str(version.version) == str(holder.version) for version in gone):
        _move_alias(recorder, name, holder)


def _move_alias(recorder: Recorder, name: str, holder: ModelVersion) -> None:
    """Give the alias to the best version on the validation set of `holder`, of equal ones to the earlier."""
    rivals = [
        version
        for version in _versions(recorder, name)
        if version.tags.get(VALIDATION) == holder.tags[VALIDATION]
    ]
    best = max(rivals, key=lambda version: (float(version.tags[VALID]), -int(version.version)), default=None)
    if best and recorder.client.get_registered_model(name).aliases.get(BEST) != str(best.version):
        recorder.client.set_registered_model_alias(name, BEST, best.version)


def _version(recorder: Recorder, name: str, model_id: str, tags: dict[str, str]) -> ModelVersion:
    source = f"models:/{model_id}"
    for found in recorder.client.search_model_versions(f"name = '{name}' AND source_path = '{source}'"):
        for tag in (tag for tag, value in tags.items() if found.tags.get(tag) != value):
            recorder.client.set_model_version_tag(name, found.version, tag, tags[tag])
        return recorder.client.get_model_version(name, found.version)
    try:
        recorder.client.create_registered_model(
            name, description="Checkpoints that a gate named best; the alias `best` is moved by gates only."
        )
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    return recorder.client.create_model_version(name, source, tags=tags, model_id=model_id)


def _versions(recorder: Recorder, name: str) -> list[ModelVersion]:
    return list(recorder.client.search_model_versions(f"name = '{name}'", max_results=10_000))


def _holder(recorder: Recorder, name: str) -> ModelVersion | None:
    alias = recorder.client.get_registered_model(name).aliases.get(BEST)
    return recorder.client.get_model_version(name, alias) if alias else None
