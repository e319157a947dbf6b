"""A trace of the design call of a stage: one span for each answer of the model, with its real times."""

from datetime import UTC, datetime
from typing import Any

import mlflow
from mlflow.entities import SpanType
from mlflow.tracing.constant import SpanAttributeKey, TraceMetadataKey

from engineer.engineers.llm import conversations
from engineer.proposal import Proposal


def log_trace(proposal: Proposal, experiment: str, run: str, model: str | None, tags: dict[str, str]) -> str:
    """Log the trace of a proposal that a model was asked for; return its id.

    `run` is the MLflow run of the stage, `model` the MLflow model that answered, if it is one of ours.
    """
    start = _nanoseconds(proposal.attempts[0].started) if proposal.attempts else None
    metadata = {TraceMetadataKey.SOURCE_RUN: run, **({TraceMetadataKey.MODEL_ID: model} if model else {})}
    root = mlflow.start_span_no_context(
        f"design stage {proposal.stage + 1}",
        SpanType.AGENT,
        inputs={"prompt": proposal.prompt, "engineer": proposal.engineer, "variant": proposal.variant},
        tags=tags,
        metadata=metadata,
        experiment_id=experiment,
        start_time_ns=start,
    )
    end = start
    for number, (attempt, conversation) in enumerate(
        zip(proposal.attempts, conversations(proposal), strict=False), start=1
    ):
        used = {"input_tokens": attempt.prompt_tokens, "output_tokens": attempt.completion_tokens}
        usage: Any = {**used, "total_tokens": sum(used.values())}
        start = _nanoseconds(attempt.started)
        end = start + int(attempt.seconds * 1e9)
        span = mlflow.start_span_no_context(
            f"answer {number}",
            SpanType.CHAT_MODEL,
            parent_span=root,
            inputs={"messages": [message.model_dump(mode="json") for message in conversation]},
            attributes={SpanAttributeKey.CHAT_USAGE: usage},
            start_time_ns=start,
        )
        answer = {"content": attempt.text, "error": attempt.error}
        span.end(answer, status=_status(attempt.error), end_time_ns=end)
    outputs = proposal.model_dump(mode="json", include={"config", "rationale", "fallback", "changes"})
    root.end(outputs, status=_status(proposal.fallback), end_time_ns=end)
    return root.trace_id


def _status(error: Any) -> str:
    return "ERROR" if error else "OK"


def _nanoseconds(moment: datetime) -> int:
    return int(moment.astimezone(UTC).timestamp() * 1e9)
