"""What the record of a checkpoint says: the tags of its LoggedModel."""

from typing import Self

from mlflow.entities import LoggedModel

from envgen.frozen import Frozen

PREFIX = "envwright."
KEY, CURRICULUM, STAGE, PATH, DIGEST = (
    PREFIX + name for name in ("key", "curriculum", "stage", "path", "digest")
)
SEARCHED = ("curriculum", "path", "digest")
"""Facts that are searched for."""


class Facts(Frozen):
    """What made a checkpoint; each field is a tag `envwright.<field>`.

    What is not known, or was not there, is None and no tag.
    """

    curriculum: str
    """Key of the curriculum; all checkpoints of a chain share it, the base model's record included."""
    run: str
    """Name of the curriculum."""
    preset: str
    seed: int
    stage: int
    """The stage that made it; -1 is the base model."""
    path: str
    digest: str
    """Of its files; a hub id stands for itself."""
    parent: str | None = None
    """Model id of the checkpoint it was trained from."""
    dataset: str | None = None
    dataset_digest: str | None = None
    instances: int | None = None
    validation: str | None = None
    validation_digest: str | None = None
    validation_instances: int | None = None
    config: str | None = None
    """Digest of the environment config."""
    changes: str | None = None
    """What it changed against the config of the stage before, in words."""
    proposal: str | None = None
    """Digest of the proposal that the config comes from; None for the default config."""
    fallback: str | None = None
    """Why the previous config was kept, if it was."""
    engineer: str | None = None
    variant: str | None = None
    resumed: str | None = None
    """The steps at which its training went on after it was cut off, and whether exactly; None if it was
    not."""
    prompt: str | None = None
    """Name of the prompt that a model was asked with; None if none was asked."""
    prompt_version: int | None = None
    trace: str | None = None
    """Trace of the model's answers."""
    decision: str | None = None
    """approve, reject or stop: what a person decided on the proposal; None if nobody was asked."""
    decision_edited: bool | None = None
    decision_by: str | None = None
    decision_via: str | None = None
    decision_at: str | None = None
    decision_comment: str | None = None
    gate: str | None = None
    """What the gate did after the stage."""

    def tags(self) -> dict[str, str]:
        """The facts as tags."""
        known = {
            name: value
            for name, value in self.model_dump(mode="json", include=set(Facts.model_fields)).items()
            if value not in (None, "")
        }
        return {
            PREFIX + name: quoted(str(value)) if name in SEARCHED else str(value)
            for name, value in known.items()
        }


class Ancestor(Facts):
    """A recorded checkpoint of a chain."""

    checkpoint: str
    model_id: str
    valid: float | None = None
    """Valid and optimal rate on the validation set."""
    optimal: float | None = None

    @classmethod
    def of(cls, model: LoggedModel) -> Self:
        """The ancestor that a LoggedModel records."""
        tags = {name: model.tags[PREFIX + name] for name in Facts.model_fields if PREFIX + name in model.tags}
        facts = {name: unquoted(value) if name in SEARCHED else value for name, value in tags.items()}
        rates = {
            m.key: m.value
            for m in sorted(model.metrics or [], key=lambda m: m.timestamp)
            if m.key in ("valid", "optimal")
        }
        return cls.model_validate({**facts, **rates, "checkpoint": model.name, "model_id": model.model_id})


def tagged(tag: str, value: str) -> str:
    """The filter of a search for a tag's value."""
    return f"tags.`{tag}` = '{quoted(value)}'"


def quoted(text: str) -> str:
    """A text as tags hold it that are searched for: quotes in it would end those of a search."""
    return text.replace("'", "%27").replace('"', "%22")


def unquoted(text: str) -> str:
    """The text that `quoted` was given."""
    return text.replace("%27", "'").replace("%22", '"')
