"""What a family needs that keeps no columns of its own: instances and verdicts, and how they are stored."""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pydantic import JsonValue, ValidationError

from envgen.errors import DataError, describe_validation_error
from envgen.frozen import Frozen


class PlainInstance(Frozen):
    """A question with its best answer."""

    id: str
    stratum: str
    question: str
    answer: str
    labels: frozenset[str] = frozenset()
    payload: dict[str, JsonValue] = {}
    """What else the judge needs."""


class PlainVerdict(Frozen):
    """Whether an answer is right, and if not, why."""

    valid: bool
    optimal: bool = False
    category: str | None = None
    detail: str = ""
    terms: dict[str, float] = {}

    @property
    def outcome(self) -> str:
        """`valid`, or what went wrong."""
        return (self.category or "valid").replace("_", " ")


class PlainRows:
    """Storage of a `TaskFamily`: every field is a column, those that are no text or number as JSON."""

    styles = ("plain",)
    schema = pa.schema(
        [
            *(
                pa.field(name, pa.string(), nullable=False)
                for name in ("id", "stratum", "question", "answer")
            ),
            *(pa.field(name, pa.string(), nullable=False) for name in ("labels", "payload", "prompt")),
        ]
    )
    verdict_schema = pa.schema(
        [
            pa.field("valid", pa.bool_(), nullable=False),
            pa.field("optimal", pa.bool_(), nullable=False),
            pa.field("category", pa.string()),
            pa.field("detail", pa.string(), nullable=False),
            pa.field("terms", pa.string(), nullable=False),
        ]
    )

    def reserved(self) -> frozenset[str]:
        """No ids: there is no benchmark."""
        return frozenset()

    def prompt(self, instance: PlainInstance, style: str) -> str:
        """The question as it is."""
        return instance.question

    def reference(self, instance: PlainInstance) -> str:
        """The stored answer."""
        return instance.answer

    def measures(self, instance: PlainInstance, verdict: PlainVerdict) -> dict[str, float]:
        """Nothing is measured besides."""
        return {}

    def row(self, instance: PlainInstance, style: str) -> dict[str, Any]:
        """An instance as a row of `schema`."""
        row = instance.model_dump(include={"id", "stratum", "question", "answer"})
        written = {"labels": json.dumps(sorted(instance.labels)), "payload": json.dumps(instance.payload)}
        return {**row, **written, "prompt": self.prompt(instance, style)}

    def instance(self, row: Mapping[str, Any], where: str) -> PlainInstance:
        """The instance of a row; DataError names `where`, field and value."""
        try:
            known = {name: row[name] for name in ("id", "stratum", "question", "answer")}
            labels, payload = json.loads(row["labels"]), json.loads(row["payload"])
            return PlainInstance(**known, labels=labels, payload=payload)
        except ValidationError as error:
            raise DataError(describe_validation_error(error, f"{where}: not an instance")) from None
        except ValueError as error:
            raise DataError(f"{where}: not an instance: {error}") from None

    def verdict_row(self, verdict: PlainVerdict) -> dict[str, Any]:
        """A verdict as a row of `verdict_schema`."""
        return verdict.model_dump() | {"terms": json.dumps(verdict.terms)}

    def verdict(self, row: Mapping[str, Any]) -> PlainVerdict:
        """The verdict of a row."""
        return PlainVerdict(**{**row, "terms": json.loads(row["terms"])})

    def picture(
        self, instance: PlainInstance, answer: str | None, verdict: PlainVerdict | None
    ) -> str | None:
        """None: there is nothing to draw."""
        return None
