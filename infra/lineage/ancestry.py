"""From any checkpoint down to the base model, by one search."""

from pathlib import Path

import mlflow
from mlflow import MlflowClient
from mlflow.entities import LoggedModel
from mlflow.exceptions import MlflowException

from envgen.errors import RunDirectoryError
from envgen.files import file_digest
from infra.config.settings import without_password
from infra.lineage.checkpoint_tags import CURRICULUM, DIGEST, PATH, Ancestor, quoted, tagged
from infra.lineage.recorder import EXPERIMENTS, connect

REGISTRY = "models:/"
_OURS = f"name LIKE '{EXPERIMENTS}%'"


def ancestry(tracking_uri: str, checkpoint: str) -> list[Ancestor]:
    """A checkpoint and what it was trained from, newest first.

    `checkpoint` is a directory, which may have been moved or deleted since, or `models:/NAME@ALIAS`,
    `models:/NAME/VERSION` or `models:/MODEL_ID`. The files of the run are not needed: one search of MLflow
    returns the whole chain,

        mlflow.search_logged_models(
            experiment_ids=[...], filter_string="tags.`envwright.curriculum` = '<curriculum>'"
        )

    where `<curriculum>` is that tag of any checkpoint in it, and `envwright.parent` leads from each to the
    one before. RunDirectoryError if MLflow does not know it, or does not answer.
    """
    database = Path(tracking_uri.removeprefix("sqlite:///"))
    if tracking_uri.startswith("sqlite:///") and not database.exists():
        raise _unknown(checkpoint)
    try:
        client = connect(tracking_uri)
        found = [one.experiment_id for one in client.search_experiments(filter_string=_OURS)]
        model = _find(client, found, checkpoint) if found else None
        chain = _chain(model) if model and CURRICULUM in model.tags else []
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE", "NOT_FOUND"):
            raise _unknown(checkpoint) from None
        raise RunDirectoryError(
            f"MLflow cannot be read: {without_password(error)[:300]}; check MLFLOW_TRACKING_URI"
        ) from None
    if not chain:
        raise _unknown(checkpoint)
    return chain


def _unknown(checkpoint: str) -> RunDirectoryError:
    missing = (
        ""
        if checkpoint.startswith(REGISTRY) or Path(checkpoint).is_dir()
        else "there is no such folder, and "
    )
    return RunDirectoryError(
        f"{checkpoint}: {missing}MLflow knows no such checkpoint; check the path, and MLFLOW_TRACKING_URI or "
        "ENVWRIGHT_RUNS"
    )


def _chain(model: LoggedModel) -> list[Ancestor]:
    found = _search([model.experiment_id], tagged(CURRICULUM, Ancestor.of(model).curriculum))
    known = {one.model_id: Ancestor.of(one) for one in found}
    chain: list[Ancestor] = []
    following = known.pop(model.model_id, None)
    while following:
        chain.append(following)
        following = known.pop(following.parent, None) if following.parent else None
    return chain


def _search(experiments: list[str], filter_string: str) -> list[LoggedModel]:
    return mlflow.search_logged_models(
        experiment_ids=experiments, filter_string=filter_string, output_format="list"
    )


def _find(client: MlflowClient, experiments: list[str], checkpoint: str) -> LoggedModel | None:
    if checkpoint.startswith(REGISTRY):
        return client.get_logged_model(_model_id(client, checkpoint.removeprefix(REGISTRY)))
    path = Path(checkpoint).resolve()
    there = _search(experiments, tagged(PATH, str(path))) or _search(experiments, tagged(PATH, checkpoint))
    if path.is_dir():
        digest = file_digest(path)
        same = [model for model in there if model.tags.get(DIGEST) == digest]
        # Not recorded under this path, or other weights were: the run may have been moved here.
        there = same or _search(experiments, tagged(DIGEST, digest))
    return max(
        there,
        key=lambda model: (_common(model.tags.get(PATH, ""), quoted(str(path))), model.creation_timestamp),
        default=None,
    )


def _model_id(client: MlflowClient, name: str) -> str:
    """The model id behind `NAME@ALIAS`, `NAME/VERSION` or the id itself."""
    if "@" in name:
        version = client.get_model_version_by_alias(*name.rsplit("@", 1))
    elif "/" in name:
        version = client.get_model_version(*name.rsplit("/", 1))
    else:
        return name
    return str(version.source).removeprefix(REGISTRY)


def _common(one: str, other: str) -> int:
    """How many of their last parts two paths share.

    Of copies of a checkpoint, the one with the same run and stage is meant.
    """
    count = 0
    for a, b in zip(reversed(Path(one).parts), reversed(Path(other).parts), strict=False):
        if a != b:
            break
        count += 1
    return count
