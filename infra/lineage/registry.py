"""The registered model of a preset: a version for every checkpoint that a gate named best, and the alias `best`."""

import re

from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException

from infra.lineage.facts import PREFIX
from infra.lineage.recorder import Recorder

BEST = "best"
VALID, VALIDATION = PREFIX + "valid", PREFIX + "validation_digest"


def registry_name(name: str) -> str:
    """`envwright-<name>` in the characters that MLflow's registry accepts."""
    return "envwright-" + re.sub(r"[^A-Za-z0-9._-]", "-", name)


def name_best(recorder: Recorder, preset: str, model_id: str, valid: float, validation: str, tags: dict[str, str]) -> None:
    """Register the checkpoint that a gate named best; it gets the alias if nobody has it, or its valid rate on the same validation set is higher.

    Within a curriculum a gate names a new best only if its valid rate is higher, so that the alias follows the gate, and recording an
    older stage again leaves it where it is. Rates on different validation sets say nothing about each other.
    """
    name = registry_name(preset)
    version = _version(recorder, name, model_id, {VALID: repr(valid), VALIDATION: validation, **tags})
    holder = _holder(recorder, name)
    if holder is None or (holder.tags.get(VALIDATION) == validation and float(holder.tags[VALID]) < valid):
        recorder.client.set_registered_model_alias(name, BEST, version.version)


def _version(recorder: Recorder, name: str, model_id: str, tags: dict[str, str]) -> ModelVersion:
    source = f"models:/{model_id}"
    for found in recorder.client.search_model_versions(f"name = '{name}' AND source_path = '{source}'"):
        return found
    try:
        recorder.client.create_registered_model(name, description="Checkpoints that a gate named best; the alias `best` is moved by gates only.")
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    return recorder.client.create_model_version(name, source, tags=tags, model_id=model_id)


def _holder(recorder: Recorder, name: str) -> ModelVersion | None:
    alias = recorder.client.get_registered_model(name).aliases.get(BEST)
    return recorder.client.get_model_version(name, alias) if alias else None
